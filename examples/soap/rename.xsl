<?xml version="1.0"?>
<!-- Subtract becomes Add, whatever else stands in the message stays. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:t="http://tempuri.org/">
  <xsl:output method="xml" encoding="utf-8"/>
  <xsl:template match="@*|node()">
    <xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy>
  </xsl:template>
  <xsl:template match="t:Subtract">
    <Add xmlns="http://tempuri.org/"><xsl:apply-templates select="@*|node()"/></Add>
  </xsl:template>
</xsl:stylesheet>
