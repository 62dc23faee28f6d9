<?xml version="1.0"?>
<!-- AddResult becomes KongResult. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:t="http://tempuri.org/" exclude-result-prefixes="t">
  <xsl:output method="xml" encoding="utf-8"/>
  <xsl:template match="@*|node()">
    <xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy>
  </xsl:template>
  <xsl:template match="t:AddResult">
    <KongResult xmlns="http://tempuri.org/"><xsl:apply-templates select="@*|node()"/></KongResult>
  </xsl:template>
</xsl:stylesheet>
