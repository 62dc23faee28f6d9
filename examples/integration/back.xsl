<!-- Names that were written backwards are written forwards again. Everything else is copied. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:m="http://services.samples/xsd">
  <xsl:output omit-xml-declaration="yes"/>
  <xsl:template match="@*|node()"><xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy></xsl:template>
  <xsl:template match="m:skcotSyub"><xsl:element name="m:buyStocks"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="skcotSyub"><xsl:element name="buyStocks"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:redro"><xsl:element name="m:order"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="redro"><xsl:element name="order"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:lobmys"><xsl:element name="m:symbol"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="lobmys"><xsl:element name="symbol"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:DIreyub"><xsl:element name="m:buyerID"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="DIreyub"><xsl:element name="buyerID"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:ecirp"><xsl:element name="m:price"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="ecirp"><xsl:element name="price"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:emulov"><xsl:element name="m:volume"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="emulov"><xsl:element name="volume"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
</xsl:stylesheet>
