<?xml version="1.0"?>
<!-- {"operation": "Add", "intA": 50, "intB": 10} becomes a call of the calculator. The JSON is the text of the root. -->
<xsl:stylesheet version="3.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:f="http://www.w3.org/2005/xpath-functions"
    xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" exclude-result-prefixes="f">
  <xsl:output method="xml" encoding="utf-8" indent="yes"/>
  <xsl:template match="/">
    <xsl:variable name="call" select="json-to-xml(.)/f:map"/>
    <soap:Envelope>
      <soap:Body>
        <xsl:element name="{$call/f:string[@key = 'operation']}" namespace="http://tempuri.org/">
          <intA xmlns="http://tempuri.org/"><xsl:value-of select="$call/f:number[@key = 'intA']"/></intA>
          <intB xmlns="http://tempuri.org/"><xsl:value-of select="$call/f:number[@key = 'intB']"/></intB>
        </xsl:element>
      </soap:Body>
    </soap:Envelope>
  </xsl:template>
</xsl:stylesheet>
