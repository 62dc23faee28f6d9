<?xml version="1.0"?>
<!-- The second operand becomes 10. The element is written without a namespace: `strip_empty_namespaces` gives it its parent's. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="xml" encoding="utf-8"/>
  <xsl:template match="@*|node()">
    <xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy>
  </xsl:template>
  <xsl:template match="//*[local-name()='intB']"><intB>10</intB></xsl:template>
</xsl:stylesheet>
