<?xml version="1.0"?>
<!-- What stands in the body, without the envelope and without namespaces. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" exclude-result-prefixes="soap">
  <xsl:output method="xml" encoding="utf-8"/>
  <xsl:strip-space elements="*"/>
  <xsl:template match="/"><xsl:apply-templates select="soap:Envelope/soap:Body/*"/></xsl:template>
  <xsl:template match="*"><xsl:element name="{local-name()}"><xsl:apply-templates/></xsl:element></xsl:template>
</xsl:stylesheet>
