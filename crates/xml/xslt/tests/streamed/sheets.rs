//! Stylesheets by their bodies.

/// The examples that come with the gateway.
pub(crate) const EXAMPLES: &[&str] = &[
    include_str!("../../../../../examples/soap/rename.xsl"),
    include_str!("../../../../../examples/soap/ten.xsl"),
    include_str!("../../../../../examples/soap/strip.xsl"),
    include_str!("../../../../../examples/soap/kong-result.xsl"),
    include_str!("../../../../../examples/soap/thirteen.xsl"),
];

/// The imported module.
pub(crate) const IMPORTED: &str = "<x:template match='b' priority='9'><imported/></x:template>\
<x:template match='c'><c-imported><x:apply-templates/></c-imported></x:template>\
<x:template match='text()'>(<x:value-of select='.'/>)</x:template>";

/// Bodies that stream.
pub(crate) const BODIES: &[&str] = &[
    "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>",
    // Only the built-in rules.
    "",
    // Conflicts: default priorities, explicit ones, the last of equal ones.
    "<x:template match='*'>[*<x:apply-templates/>]</x:template><x:template match='b'>[b<x:apply-templates/>]</x:template>\
     <x:template match='p:*'>[p<x:apply-templates select='node()|@*'/>]</x:template>\
     <x:template match='p:b' priority='-1'>[pb]</x:template><x:template match='c'>first</x:template>\
     <x:template match='c'>last<x:apply-templates/></x:template><x:template match='d' priority='0.1'>[d1]</x:template>\
     <x:template match='d' priority='0.2'>[d2<x:apply-templates/>]</x:template>",
    // Patterns that test ancestors.
    "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>\
     <x:template match='a/b'><ab><x:apply-templates select='@*|node()'/></ab></x:template>\
     <x:template match='/a/b/a' priority='2'><root-aba><x:apply-templates/></root-aba></x:template>\
     <x:template match='a//b/a'><a-b-a><x:apply-templates/></a-b-a></x:template>\
     <x:template match='/a'><root><x:apply-templates select='@*|node()'/></root></x:template>\
     <x:template match='b/text()'>{b}</x:template><x:template match='a/@x'><x:attribute name='ax'>1</x:attribute></x:template>\
     <x:template match='c//@*'><x:attribute name='below-c'>2</x:attribute></x:template>\
     <x:template match='//c/comment()'>cc</x:template><x:template match='*/*/*/*/b' priority='3'>five</x:template>",
    // Predicates on names and attributes.
    "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>\
     <x:template match=\"//*[local-name()='b']\"><lb><x:apply-templates/></lb></x:template>\
     <x:template match=\"*[name()='p:b']\" priority='2'><pb><x:apply-templates/></pb></x:template>\
     <x:template match=\"*[namespace-uri()='urn:q' and not(local-name()='c')]\" priority='3'><uq/></x:template>\
     <x:template match=\"*[self::c or local-name(.)='d']\" priority='1'><cd><x:apply-templates/></cd></x:template>\
     <x:template match=\"*[@k]\" priority='4'><k><x:apply-templates/></k></x:template>\
     <x:template match=\"*[@x='1'][@y]\" priority='5'><xy/></x:template>\
     <x:template match=\"*[@x!='1']\" priority='6'><not1><x:apply-templates/></not1></x:template>\
     <x:template match=\"@*[starts-with(name(),'p:')]\"/><x:template match=\"@*[.=' 3 ']\"><x:attribute name='three'/></x:template>\
     <x:template match=\"*[contains(string(@k),'v') and @k=local-name()]\" priority='7'>ev</x:template>",
    // Copies of whole subtrees, with the namespaces around them.
    "<x:template match='/'><out><x:apply-templates/></out></x:template>\
     <x:template match='*'><x:apply-templates/></x:template><x:template match='b'>&lt;<x:copy-of select='.'/>&gt;</x:template>\
     <x:template match='c|p:d'><x:copy><x:copy-of select='@*'/><x:copy-of select='node()'/></x:copy></x:template>\
     <x:template match='text()'/>",
    "<x:template match='/'><out xmlns:o='urn:o'><x:copy-of select='.'/></out></x:template>",
    "<x:template match='/'><out><x:copy-of select='*/b'/></out></x:template>",
    "<x:template match='*'><x:element name='{local-name()}' namespace='{namespace-uri()}'><x:copy-of select='@*'/>\
     <x:apply-templates select='*|text()'/></x:element></x:template>",
    // Values that are written while the source is read.
    "<x:template match='/'><out><x:value-of select='.'/></out></x:template><x:strip-space elements='*'/>",
    "<x:template match='*'><e><x:apply-templates select='*'/></e></x:template>\
     <x:template match='b|p:b'><x:copy>v:<x:value-of select='.'/>;</x:copy></x:template>\
     <x:template match='c'><x:value-of select='@x'/>,<x:value-of select='@*'/>,<x:value-of select='b'/>.</x:template>",
    "<x:template match='/'>[<x:value-of select='a/b'/>]</x:template>",
    "<x:template match='/'>[<x:value-of select='a/b/text()' disable-output-escaping='yes'/>]</x:template>",
    "<x:template match='a'>[<x:value-of select='comment()'/>]</x:template>",
    // Literal text, comments and instructions.
    "<x:template match='text()'><t><x:value-of select='.'/></t></x:template>\
     <x:template match='comment()'><c><x:copy/><x:value-of select='.'/></c></x:template>\
     <x:template match='processing-instruction()'><i n='{name()}'><x:copy-of select='.'/></i></x:template>\
     <x:template match=\"processing-instruction('p')\">p:<x:value-of select='.'/></x:template>\
     <x:template match='*'><x:copy><x:apply-templates select='node()'/></x:copy></x:template>",
    "<x:template match='node()'><x:copy><x:apply-templates/></x:copy></x:template>\
     <x:template match='text()'><x:copy/>!</x:template><x:template match='comment()'/>",
    // Computed names and content.
    "<x:template match='*'><x:copy><x:attribute name='n'><x:value-of select='name()'/></x:attribute>\
     <x:attribute name='p:{local-name()}'>u</x:attribute><x:attribute name='w' namespace='urn:w'><x:value-of select=\"'c'\"/>\
     </x:attribute><x:comment>n <x:value-of select='local-name()'/>-</x:comment>\
     <x:processing-instruction name='i'>d <x:value-of select='@x'/></x:processing-instruction>\
     <x:apply-templates select='@*|node()'/><x:comment>end <x:value-of select='name()'/></x:comment></x:copy></x:template>\
     <x:template match='@*'><x:attribute name='m-{local-name()}'>(<x:value-of select='.'/>)</x:attribute></x:template>",
    "<x:template match='*'><x:element name='{name()}'><x:apply-templates/></x:element></x:template>",
    "<x:template match='*'><x:element name=' p:{local-name()} '><x:apply-templates select='@*'/><x:apply-templates/></x:element>\
     </x:template>",
    "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>\
     <x:template match='p:b'><new xmlns='urn:p' xmlns:q='urn:q' a='{@x}{name()}'>&lt;<x:text disable-output-escaping='yes'>&lt;</x:text>\
     <x:apply-templates/><tail/></new></x:template><x:template match='@p:*'/><x:template match='@k'>late</x:template>",
    // Modes.
    "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>\
     <x:template match='b'><m><x:apply-templates select='@*|node()' mode='m'/></m></x:template>\
     <x:template match='*' mode='m'><x:copy><x:apply-templates mode='m'/></x:copy></x:template>\
     <x:template match='text()' mode='m'>T</x:template><x:template match='c' mode='m'><x:apply-templates/></x:template>",
    // Paths downwards.
    "<x:template match='/'><x:apply-templates select='soap:Envelope/soap:Body/*'/></x:template>\
     <x:template match='*'><x:copy><x:apply-templates/></x:copy></x:template>",
    "<x:template match='/'><r><x:apply-templates select='/a/b/*'/></r></x:template>\
     <x:template match='*'><x:copy><x:copy-of select='@*'/><x:apply-templates select='b/c'/></x:copy></x:template>",
    "<x:template match='/'><r><x:apply-templates select=\"*[local-name()='Envelope']/*[local-name()='Body']/*\"/></r></x:template>\
     <x:template match='*'><x:element name='{local-name()}'><x:apply-templates select='*|text()|@k'/></x:element></x:template>",
    "<x:template match='a'><r><x:apply-templates select='b/text()'/></r></x:template>",
    // White space.
    "<x:strip-space elements='*'/><x:preserve-space elements='b p:*'/>\
     <x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>",
    "<x:strip-space elements='p:* c'/><x:template match='node()'><x:copy><x:copy-of select='@*'/><x:apply-templates/></x:copy>\
     </x:template><x:template match='text()'>[<x:value-of select='.'/>]</x:template>",
    // Imports.
    "<x:import href='imported'/><x:template match='b'><own><x:apply-templates/></own></x:template>\
     <x:template match='*' priority='-5'><star><x:apply-templates select='@*|node()'/></star></x:template>",
    // Choices.
    "<x:template match='*'><x:choose><x:when test='@x'><with-x v='{@x}'><x:apply-templates/></with-x></x:when>\
     <x:when test=\"local-name()='b' or namespace-uri()='urn:q'\"><x:copy><x:if test='@k'><has-k/></x:if><x:apply-templates/>\
     <x:if test=\"self::p:b\"><was-pb/></x:if></x:copy></x:when><x:when test='self::c'/>\
     <x:otherwise><other><x:apply-templates select='*'/></other></x:otherwise></x:choose></x:template>",
    // Calls and sets without parameters.
    "<x:attribute-set name='s'><x:attribute name='s1'>1</x:attribute><x:attribute name='x'>set</x:attribute></x:attribute-set>\
     <x:template match='*'><x:copy use-attribute-sets='s'><x:call-template name='inside'/></x:copy></x:template>\
     <x:template name='inside'><called n='{name()}' x:use-attribute-sets='s'/><x:apply-templates select='@*|node()'/></x:template>",
    // Attributes for an element that another template copied.
    "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>\
     <x:template match='b'><x:attribute name='from-b'>1</x:attribute><x:apply-templates select='@*'/></x:template>",
    "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>\
     <x:template match='text()'><x:attribute name='text'><x:value-of select='.'/></x:attribute></x:template>",
    "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>\
     <x:template match='c'><x:copy-of select='@*'/></x:template><x:template match='comment()'><x:attribute name='n'/></x:template>",
    // The same text in attributes, where it belongs, and elsewhere.
    "<x:template match='node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>\
     <x:template match='@*|comment()'><x:attribute name='was-{local-name()}'><x:value-of select='.'/></x:attribute></x:template>",
    // Most of the source produces nothing.
    "<x:template match='*'/><x:template match='a'><only><x:apply-templates select='b'/></only></x:template>\
     <x:template match='b'>b</x:template>",
    "<x:template match='/'>constant</x:template>",
    "<x:template match='/'><html><head/><body><x:apply-templates/></body></html></x:template>\
     <x:template match='b'><br/><script>a&lt;b<x:apply-templates/></script></x:template>",
    "<x:namespace-alias stylesheet-prefix='q' result-prefix='p'/><x:template match='b'><q:b q:x='1'><x:apply-templates/></q:b></x:template>",
    // Run-time errors.
    "<x:template match='b'><x:element name='{@x}'/></x:template>",
    "<x:template match='b'><x:processing-instruction name='{@x}'>d</x:processing-instruction></x:template>",
    "<x:template match='b'><e><x:attribute name='{name()}ns'/></e></x:template><x:template match='*[@p:x]'><x:element name='z:{name()}'/></x:template>",
];

/// Bodies that need a tree.
pub(crate) const TREES: &[&str] = &[
    "<x:template match='*'><e n=\"{concat(name(),'-')}\"/></x:template>",
    "<x:template match='/'>[<x:value-of select='/*/*/@k | .'/>]</x:template>",
    "<x:template match='*'><x:apply-templates select='b/c|d'/></x:template>",
    "<x:template match='/'><x:apply-templates select='//b'/></x:template>",
    "<x:template match='*'><x:apply-templates select='b'/><x:apply-templates select='c'/></x:template>",
    "<x:template match='b[1]'>first</x:template>",
    "<x:template match='b[c]'>has c</x:template>",
    "<x:template match='b'><x:value-of select='../@x'/></x:template>",
    "<x:template match='b'><x:value-of select='position()'/></x:template>",
    "<x:template match='b'><x:apply-templates/><x:value-of select='@x'/></x:template>",
    "<x:template match='*'><x:apply-templates><x:sort select='.'/></x:apply-templates></x:template>",
    "<x:template match='*'><x:for-each select='*'><x:copy/></x:for-each></x:template>",
    "<x:template match='b'><x:apply-templates select='.' mode='m'/></x:template>",
    "<x:template match='*'><x:variable name='v' select='.'/><x:value-of select='$v'/></x:template>",
    "<x:template match='*'><x:message>m</x:message></x:template>",
    "<x:template match='b'><x:apply-imports/></x:template>",
    "<x:template match='*'><x:value-of select='a|@b'/></x:template>",
    "<x:template match='a[@x]/b'>b</x:template>",
    "<x:template match=\"text()[.='t']\">t</x:template>",
    "<x:template match='b'><x:copy-of select='/'/></x:template>",
    "<x:template match='*'><e n='{count(*)}'/></x:template>",
    "<x:template match='*'><x:call-template name='t'/></x:template><x:template name='t'>x<x:call-template name='u'/></x:template>\
     <x:template name='u'><x:if test='@never'><x:call-template name='t'/></x:if></x:template>",
];
