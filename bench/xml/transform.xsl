<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:template match="@*|node()">
    <xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy>
  </xsl:template>
  <xsl:template match="intA|quantity">
    <xsl:element name="{local-name()}Renamed"><xsl:apply-templates select="@*|node()"/></xsl:element>
  </xsl:template>
</xsl:stylesheet>
