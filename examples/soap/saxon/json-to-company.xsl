<?xml version="1.0"?>
<!-- What the service echoes as `json` becomes the company again. -->
<xsl:stylesheet version="3.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:f="http://www.w3.org/2005/xpath-functions"
    exclude-result-prefixes="f">
  <xsl:output method="xml" encoding="UTF-8" indent="yes"/>
  <xsl:template match="/">
    <xsl:variable name="company" select="json-to-xml(.)/f:map/f:map[@key = 'json']"/>
    <root>
      <companyName><xsl:value-of select="$company/f:string[@key = 'companyName']"/></companyName>
      <city><xsl:value-of select="$company/f:string[@key = 'city']"/></city>
      <state><xsl:value-of select="$company/f:string[@key = 'state']"/></state>
      <country><xsl:value-of select="$company/f:string[@key = 'country']"/></country>
      <offices>
        <xsl:for-each select="$company/f:map[@key = 'offices']/f:array[@key = 'site']/f:string">
          <site><xsl:value-of select="."/></site>
        </xsl:for-each>
      </offices>
      <products><xsl:value-of select="$company/f:string[@key = 'products']"/></products>
    </root>
  </xsl:template>
</xsl:stylesheet>
