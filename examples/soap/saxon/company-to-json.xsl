<?xml version="1.0"?>
<!-- A company becomes JSON; its sites become a list. -->
<xsl:stylesheet version="3.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns="http://www.w3.org/2005/xpath-functions">
  <xsl:output method="text" encoding="utf-8"/>
  <xsl:template match="/root">
    <xsl:variable name="company">
      <map>
        <string key="companyName"><xsl:value-of select="companyName"/></string>
        <string key="city"><xsl:value-of select="city"/></string>
        <string key="state"><xsl:value-of select="state"/></string>
        <string key="country"><xsl:value-of select="country"/></string>
        <map key="offices">
          <array key="site">
            <xsl:for-each select="offices/site"><string><xsl:value-of select="."/></string></xsl:for-each>
          </array>
        </map>
        <string key="products"><xsl:value-of select="products"/></string>
      </map>
    </xsl:variable>
    <xsl:value-of select="xml-to-json($company)"/>
  </xsl:template>
</xsl:stylesheet>
