<?xml version="1.0"?>
<!-- The calculator's answer becomes {"result": 60}. -->
<xsl:stylesheet version="3.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns="http://www.w3.org/2005/xpath-functions"
    xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">
  <xsl:output method="text" encoding="utf-8"/>
  <xsl:template match="/">
    <xsl:variable name="answer">
      <map>
        <number key="result"><xsl:value-of select="soap:Envelope/soap:Body/*/*"/></number>
      </map>
    </xsl:variable>
    <xsl:value-of select="xml-to-json($answer)"/>
  </xsl:template>
</xsl:stylesheet>
