//! Stylesheets for the documents of `documents::plain`. Each uses features of one kind.

use fastrand::Rng;

const ALL: &[(&str, &str)] = &[
    (
        "identity",
        r#"<t:template match="@*|node()"><t:copy><t:apply-templates select="@*|node()"/></t:copy></t:template>"#,
    ),
    (
        "rename",
        r#"<t:template match="@*|node()"><t:copy><t:apply-templates select="@*|node()"/></t:copy></t:template>
<t:template match="name"><title><t:apply-templates select="@*|node()"/></title></t:template>
<t:template match="item[@group='a']"/>"#,
    ),
    (
        "sort",
        r#"<t:template match="/list"><out><t:for-each select="item"><t:sort select="@group"/>
<t:sort select="price" data-type="number" order="descending"/><i n="{position()}" id="{@id}"><t:value-of select="price"/></i></t:for-each></out></t:template>"#,
    ),
    (
        "group",
        r#"<t:key name="g" match="item" use="@group"/>
<t:template match="/list"><out><t:for-each select="item[generate-id()=generate-id(key('g',@group)[1])]">
<g name="{@group}" sum="{format-number(sum(key('g',@group)/price),'#,##0.00')}" n="{count(key('g',@group))}"/></t:for-each></out></t:template>"#,
    ),
    (
        "recursive",
        r#"<t:template match="/list"><out><t:call-template name="sum"><t:with-param name="items" select="item"/></t:call-template></out></t:template>
<t:template name="sum"><t:param name="items"/><t:param name="so-far" select="0"/>
<t:choose><t:when test="$items"><t:call-template name="sum"><t:with-param name="items" select="$items[position()&gt;1]"/>
<t:with-param name="so-far" select="$so-far + string-length($items[1])"/></t:call-template></t:when>
<t:otherwise><t:value-of select="$so-far"/></t:otherwise></t:choose></t:template>"#,
    ),
    (
        "strings",
        r#"<t:template match="/list"><out><t:for-each select="item/name"><s a="{translate(., 'n0123456789', 'N')}"
b="{substring-after(., 'n')}" c="{substring(., 2, 1)}" d="{concat(normalize-space(..), '|', string-length(.))}" e="{contains(., '1')}" f="{starts-with(., 'n1')}"/></t:for-each></out></t:template>"#,
    ),
    (
        "numbers",
        r#"<t:template match="/list"><out><t:for-each select="item"><n r="{round(price)}" f="{floor(price)}" c="{ceiling(price)}"
m="{(number(price) * 3) mod 7}" d="{price div 0}" k="{number('x')}"><t:number value="position()" format="I"/>-<t:number value="position()" format="a"/>-<t:number count="item" format="001"/></n></t:for-each></out></t:template>"#,
    ),
    (
        "axes",
        r#"<t:template match="/list"><out><t:for-each select="item"><x p="{count(preceding-sibling::item)}" f="{count(following::*)}" a="{count(ancestor-or-self::*)}"
d="{count(descendant-or-self::node())}" l="{name(*[last()])}" o="{../item[last()]/@id}"/></t:for-each></out></t:template>"#,
    ),
    (
        "modes",
        r#"<t:template match="/"><out><t:apply-templates mode="a"/><t:apply-templates select="//item" mode="b"/></out></t:template>
<t:template match="item" mode="a" priority="2"><a><t:apply-templates mode="a"/></a></t:template><t:template match="*" mode="a"><o><t:apply-templates mode="a"/></o></t:template>
<t:template match="text()" mode="a"/><t:template match="item[note]" mode="b"><noted><t:copy-of select="note"/></noted></t:template><t:template match="item" mode="b"><plain/></t:template>"#,
    ),
    (
        "constructed",
        r#"<t:attribute-set name="s"><t:attribute name="z">1</t:attribute></t:attribute-set>
<t:template match="/list"><out><t:for-each select="item"><t:element name="e-{@group}" use-attribute-sets="s"><t:attribute name="id"><t:value-of select="@id"/></t:attribute>
<t:variable name="v"><k><t:value-of select="name"/></k></t:variable><t:copy-of select="$v"/><t:comment>c<t:value-of select="@id"/></t:comment>
<t:processing-instruction name="pi">d</t:processing-instruction><t:if test="price &gt; 100">dear</t:if></t:element></t:for-each></out></t:template>"#,
    ),
    (
        "spaces",
        r#"<t:strip-space elements="*"/><t:preserve-space elements="note"/>
<t:template match="@*|node()"><t:copy><t:apply-templates select="@*|node()"/></t:copy></t:template>"#,
    ),
];

/// Returns a random stylesheet, with its name.
pub(crate) fn any(random: &mut Rng) -> (&'static str, String) {
    let (name, templates) = random.choice(ALL.iter().copied()).unwrap_or_default();
    let text = format!(
        "<t:stylesheet version=\"1.0\" xmlns:t=\"http://www.w3.org/1999/XSL/Transform\">\n{templates}\n</t:stylesheet>\n"
    );
    (name, text)
}
