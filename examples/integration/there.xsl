<!-- Names are written backwards. Everything else is copied. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:m="http://services.samples/xsd">
  <xsl:output omit-xml-declaration="yes"/>
  <xsl:template match="@*|node()"><xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy></xsl:template>
  <xsl:template match="m:buyStocks"><xsl:element name="m:skcotSyub"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="buyStocks"><xsl:element name="skcotSyub"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:order"><xsl:element name="m:redro"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="order"><xsl:element name="redro"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:symbol"><xsl:element name="m:lobmys"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="symbol"><xsl:element name="lobmys"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:buyerID"><xsl:element name="m:DIreyub"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="buyerID"><xsl:element name="DIreyub"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:price"><xsl:element name="m:ecirp"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="price"><xsl:element name="ecirp"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="m:volume"><xsl:element name="m:emulov"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
  <xsl:template match="volume"><xsl:element name="emulov"><xsl:apply-templates select="@*|node()"/></xsl:element></xsl:template>
</xsl:stylesheet>
