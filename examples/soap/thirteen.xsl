<?xml version="1.0" encoding="utf-8"?>
<!-- Keeps what Add is given, and puts another second operand behind it: the service takes the last. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:t="http://tempuri.org/">
  <xsl:template match="@*|node()">
    <xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy>
  </xsl:template>
  <xsl:template match="t:intB">
    <xsl:copy-of select="."/><intB>13</intB>
  </xsl:template>
</xsl:stylesheet>
