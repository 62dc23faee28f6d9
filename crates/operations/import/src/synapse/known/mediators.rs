//! The mediators, with their attributes and the elements in them.

use super::{Part, differs, may_differ, refused, same};

/// The parts of all mediators, by family.
pub(super) const MEDIATORS: &[Part] = &[
    same("*", "@description @statistics @trace description/**"),
    // Calls.
    same("send", ". @receive @buildmessage endpoint/**"),
    may_differ(
        "send",
        "/behind",
        "what stands behind it runs on the request in Synapse, and not at all here",
    ),
    same("call", ". @blocking=false @initAxis2ClientOptions endpoint/**"),
    differs(
        "call",
        "@blocking",
        "the call does not block a thread, and a fault has the code of any other call",
    ),
    same("call", "source@type source@name source@contentType source@xpath source/**"),
    same("call", "target@type target@name target/**"),
    same(
        "callout",
        ". @serviceURL @endpointKey @action @initAxis2ClientOptions @useServerConfig endpoint/**",
    ),
    same("callout", "source@xpath source@key source@type=envelope target@xpath target@key"),
    refused("callout", "enableSec/**", "security for one call is not made of its policy"),
    refused("callout", "configuration/**", "options of the client of axis2 have no counterpart"),
    same("respond", "."),
    may_differ(
        "respond",
        "/request",
        "the headers of the request, which are sent back there, do not go to the client",
    ),
    may_differ(
        "call",
        "/behind",
        "behind another call the headers of its reply are not sent on; those of the request are",
    ),
    same("loopback", "."),
    same("drop", "."),
    may_differ("drop", "/reply", "the client waits there until it gives up, and gets 202 here"),
    // Values.
    same("property", ". @name @value @expression @scope @type @action /**"),
    refused(
        "property",
        "@pattern @group",
        "a part of a value by a regular expression has no counterpart",
    ),
    same("propertyGroup", ". /*"),
    same("variable", ". @name @value @expression @type @action /**"),
    same("header", ". @name @value @expression @scope @action /**"),
    may_differ(
        "header",
        "/transport",
        "Synapse writes the content type and the action of the message in place of `Content-Type` and `SOAPAction` of the transport",
    ),
    // Mediators that change or report the message.
    same(
        "log",
        ". @category @separator @level=custom message/** property@name property@value property@expression property@type",
    ),
    differs(
        "log",
        "@level=full @level=simple @level=headers",
        "the line has the method, `SOAPAction` and the texts of the message, not the addresses of WS-Addressing",
    ),
    may_differ("log", "@level", "without a level and a message the line is that of `simple`"),
    same(
        "enrich",
        ". source@type source@clone source@xpath source@property source@name source@variable source@key source/**",
    ),
    same(
        "enrich",
        "target@type target@action target@xpath target@property target@name target@variable target/**",
    ),
    refused(
        "enrich",
        "target@type=key",
        "a new key in JSON has no counterpart; `payload: { json }` writes it",
    ),
    same("payloadFactory", ". @media-type @template-type=default format@key format/**"),
    refused(
        "payloadFactory",
        "@template-type @escapeXmlChars",
        "FreeMarker is not run; write the format with `{{ }}`",
    ),
    same("payloadFactory", "args args/arg args/arg@value args/arg@evaluator args/arg@literal"),
    may_differ(
        "payloadFactory",
        "args/arg@expression",
        "in XML, an element without elements that `*` selects is written as an element, and an object or a list of JSON as its text",
    ),
    refused(
        "payloadFactory",
        "args/arg@deepCheck args/arg@regex",
        "arguments that are searched for have no counterpart; number them",
    ),
    same(
        "makefault",
        ". @version @response code@value code@expression reason@value reason@expression detail@expression detail/**",
    ),
    refused("makefault", "node/** role/**", "a fault has no node and no role here"),
    same(
        "xslt",
        ". @key @source @useCache property@name property@value property@expression property@type",
    ),
    same("xslt", "resource@location resource@key"),
    may_differ("xslt", "/text", "the text that it makes stands in an element `text` there"),
    refused("xslt", "@target", "the result is the message; a property cannot hold it"),
    differs(
        "xslt",
        "feature@name feature@value attribute@name attribute@value",
        "features and attributes of the engine are left out",
    ),
    same(
        "fastXSLT",
        ". @key @source property@name property@value property@expression resource@location resource@key",
    ),
    differs(
        "fastXSLT",
        "feature@name feature@value attribute@name attribute@value",
        "features and attributes of the engine are left out",
    ),
    same("validate", ". @source @cache-schema schema@key on-fail/* resource@location resource@key"),
    differs(
        "validate",
        "property@name property@value feature@name feature@value",
        "features of the validator are left out",
    ),
    differs(
        "jsontransform",
        ". property@name property@value",
        "elements become JSON by the rules of `convert`; texts that are numbers become numbers",
    ),
    differs("jsontransform", "@schema", "the schema does not decide types"),
    differs(
        "builder",
        ". messageBuilder/**",
        "it has no effect here: bodies are read when a step looks into them",
    ),
    same("script", ". @key @function include@key /**"),
    same(
        "script",
        "@language=js @language=javascript @language=nashornJs @language=rhinoJs @language=graaljs",
    ),
    refused("script", "@language", "programs are run in JavaScript, by `script: { js }`"),
    same("script mc", "getPayloadJSON setPayloadJSON setPayloadXML getProperty setProperty"),
    differs(
        "script mc",
        "getPayloadXML",
        "it is a text, by `toString()` or `toXMLString()`; scripts have no XML in the language, and it is not indented",
    ),
    refused(
        "script mc",
        "*",
        "a script sees the message and its properties, not the gateway, and no Java",
    ),
    same("datamapper", ". @config @inputSchema @outputSchema @xsltStyleSheet"),
    may_differ(
        "datamapper",
        "/JSON",
        "JSON is mapped without the schemas: members that are null are written, and members that the output schema does not name are kept",
    ),
    may_differ(
        "datamapper",
        "/XML",
        "XML is read and written as in Micro Integrator: an element that the input schema does not have at its place is a fault, and so is an empty number; a value that is null or undefined is left out",
    ),
    may_differ(
        "datamapper",
        "/stylesheet",
        "the mapping is run and not its stylesheet, which Synapse runs for a mapping of XML to XML",
    ),
    same("datamapper", "@inputType=JSON @inputType=json @inputType=XML"),
    same("datamapper", "@outputType=JSON @outputType=json @outputType=XML"),
    refused("datamapper", "@inputType @outputType", "only XML and JSON are mapped"),
    // Mediators that select other mediators.
    same("filter", ". @xpath @source @regex then@sequence then/* else@sequence else/* /*"),
    same("switch", ". @source case@regex case/* default/*"),
    same("in", ". @sequence /*"),
    same("out", ". @sequence /*"),
    same("sequence", ". @key @name @onError /*"),
    same("call-template", ". @target with-param@name with-param@value with-param@expression"),
    refused(
        "call-template",
        "@onError",
        "a fault sequence for one call of a template has no counterpart; give it to the template",
    ),
    same("foreach", ". @id @expression @collection @sequence sequence@key sequence/*"),
    same("foreach", "@parallel-execution @continue-without-aggregation=false @result-target=body"),
    refused(
        "foreach",
        "@result-target @counter-variable @result-enclosing-element @result-type @continue-without-aggregation @attachPath",
        "what comes out is put in the place of each; there is no counter and no other target",
    ),
    same("conditionalRouter", ". @continueAfter=true"),
    differs(
        "conditionalRouter",
        "@continueAfter",
        "the flow ends behind it, with the message that it has then",
    ),
    same(
        "conditionalRouter",
        "conditionalRoute@breakRoute conditionalRoute@asynchronous=false conditionalRoute/condition/**",
    ),
    same(
        "conditionalRouter",
        "conditionalRoute/target@sequence conditionalRoute/target/sequence/*",
    ),
    refused(
        "conditionalRouter",
        "conditionalRoute@asynchronous",
        "a route beside the others has no counterpart; write it as `scatter`",
    ),
    may_differ("throwError", "@type", "its type is the detail of the fault; `$error.code` is 0"),
    same("throwError", ". @errorMessage"),
    // Several messages.
    same("clone", ". @continueParent @sequential=false @id"),
    differs("clone", "@sequential", "its branches run at once"),
    same(
        "clone",
        "target@sequence target@endpoint target@soapAction target/sequence/* target/endpoint/**",
    ),
    refused("clone", "target@to", "an address of one target has no counterpart; write an endpoint"),
    same(
        "iterate",
        ". @continueParent=false @preservePayload @attachPath @sequential @expression @id",
    ),
    refused(
        "iterate",
        "@continueParent",
        "the message does not go on beside its parts; write `wire_tap` for them",
    ),
    same(
        "iterate",
        "target@sequence target@endpoint target@soapAction target/sequence/* target/endpoint/**",
    ),
    refused(
        "iterate",
        "target@to",
        "an address of one target has no counterpart; write an endpoint",
    ),
    same(
        "aggregate",
        ". @id completeCondition@timeout completeCondition/messageCount@min completeCondition/messageCount@max",
    ),
    same(
        "aggregate",
        "onComplete@expression onComplete@sequence onComplete@enclosingElementProperty onComplete/*",
    ),
    same("aggregate", "onComplete@aggregateElementType=root"),
    may_differ(
        "aggregate",
        "/behind",
        "what stands behind the aggregate runs on single replies there, and not at all here",
    ),
    refused(
        "aggregate",
        "onComplete@aggregateElementType",
        "what is collected goes below one root",
    ),
    differs(
        "aggregate",
        "correlateOn@expression",
        "messages belong together by their branch; `correlateOn` is left out",
    ),
    same(
        "scatter-gather",
        ". @parallel-execution @target @target-variable @result-content-type sequence@key sequence/*",
    ),
    same(
        "scatter-gather",
        "aggregation@expression aggregation@min-messages aggregation@max-messages aggregation@timeout aggregation@result-enclosing-element",
    ),
    refused(
        "scatter-gather",
        "aggregation@condition",
        "a condition on the replies has no counterpart",
    ),
    // Mediators that store and count.
    differs(
        "cache",
        ". @id @timeout @scope @hashGenerator @maxMessageSize @maxSize @messageType implementation@type implementation@maxSize protocol/**",
        "requests are equal by method, action and body; name other values that matter in `key`",
    ),
    same("cache", "@collector"),
    refused(
        "cache",
        "onCacheHit@sequence onCacheHit/*",
        "steps that run on a hit have no counterpart",
    ),
    differs(
        "throttle",
        ". @id policy@key policy/** @onAccept onAccept/*",
        "the policy's first limit counts for each client's address; a time of prohibition is left out",
    ),
    differs(
        "throttle",
        "@onReject onReject/*",
        "refused requests are answered with 429, not by `onReject`",
    ),
    same("store", ". @messageStore"),
    same("store", "@sequence"),
    same(
        "dblookup",
        ". connection/pool/** statement/sql/** statement/parameter@value statement/parameter@expression",
    ),
    same("dblookup", "statement/parameter@type statement/result@name statement/result@column"),
    same(
        "dbreport",
        ". connection/pool/** statement/sql/** statement/parameter@value statement/parameter@expression",
    ),
    same(
        "dbreport",
        "statement/parameter@type statement/result@name statement/result@column @useTransaction=false",
    ),
    may_differ("dbreport", "@useTransaction", "it is refused outside of a `transaction`"),
    same("transaction", ". @action=new @action=use-existing-or-new @action=commit"),
    may_differ(
        "transaction",
        "@action=rollback",
        "a fault rolls back; outside of a fault sequence it is refused",
    ),
    refused(
        "transaction",
        "@action",
        "a transaction begins and ends in one list of mediators, and uses one database",
    ),
    same(
        "rewrite",
        ". rewriterule/action@type rewriterule/action@value rewriterule/action@xpath rewriterule/action@fragment rewriterule/action@regex",
    ),
    same("rewrite", "rewriterule/condition/**"),
    refused(
        "rewrite",
        "@inProperty @outProperty",
        "a URL in a property has no counterpart; write it in `path` and `query` of the call",
    ),
    // Operations of the http connector.
    same("http.get", ". @configKey relativePath/** headers/** configKey/**"),
    same("http.delete", ". @configKey relativePath/** headers/** configKey/**"),
    same("http.head", ". @configKey relativePath/** headers/** configKey/**"),
    same(
        "http.post",
        ". @configKey relativePath/** headers/** configKey/** requestBodyType/** requestBodyJson/** requestBodyXml/** requestBodyText/**",
    ),
    same(
        "http.put",
        ". @configKey relativePath/** headers/** configKey/** requestBodyType/** requestBodyJson/** requestBodyXml/** requestBodyText/**",
    ),
    same(
        "http.patch",
        ". @configKey relativePath/** headers/** configKey/** requestBodyType/** requestBodyJson/** requestBodyXml/** requestBodyText/**",
    ),
    // Mediators without a counterpart.
    refused(
        "class",
        ".",
        "code in Java is not run; an `interceptor` on the route calls a service of yours",
    ),
    refused("xquery", ".", "XQuery is not run; write it as a stylesheet"),
    refused("smooks", ".", "Smooks is not run; write it as a stylesheet, or as a service"),
    refused("rule", ".", "rules are not run; `filter` and `switch` may do"),
    refused("bean", ".", "code in Java is not run"),
    refused("spring", ".", "code in Java is not run"),
    refused("ejb", ".", "code in Java is not run"),
    refused("entitlement", ".", "XACML is not asked; `authorize` on the route has rules"),
    refused("oauthService", ".", "tokens are checked by `jwt` on the route"),
    refused("ntlm", ".", "NTLM is not spoken"),
    refused("opa", ".", "OPA is not asked; `authorize` on the route has rules"),
    refused("event", ".", "there is no broker; a `hub` has subscribers of its own"),
    refused(
        "enqueue",
        ".",
        "there are no executors with priorities; `store` puts a message into a queue",
    ),
    refused("sampler", ".", "messages are not held back; `throttle` refuses those over a limit"),
    refused(
        "dataServiceCall",
        ".",
        "a data service is not called by a flow; `sql` asks a database",
    ),
    refused("dbtransaction", ".", "there are no transactions over several steps"),
    refused("publishEvent", ".", "there is no event sink"),
    refused("bam", ".", "there is no event sink"),
    refused("eventPublisher", ".", "there is no event sink"),
];
