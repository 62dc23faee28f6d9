<?xml version="1.0"?>
<!-- Subtract becomes Add, whatever else stands in the message stays. -->
<xsl:stylesheet version="3.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:t="http://tempuri.org/"
    xpath-default-namespace="http://tempuri.org/" exclude-result-prefixes="t">
  <xsl:mode on-no-match="shallow-copy"/>
  <xsl:template match="Subtract">
    <xsl:element name="Add" namespace="http://tempuri.org/"><xsl:apply-templates select="@*|node()"/></xsl:element>
  </xsl:template>
</xsl:stylesheet>
