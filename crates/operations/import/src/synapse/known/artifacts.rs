//! Artifacts, endpoints, parameters and attributes.

use super::{Part, differs, may_differ, refused, same};

/// The reason for queues, files and mail.
const TRANSPORT: &str = "nothing takes messages from that; a service of yours can post them";

pub(super) const ARTIFACTS: &[Part] = &[
    // Proxies.
    same(
        "proxy",
        ". @name @transports=http @transports=https @startOnLoad=true @serviceGroup @pinnedServers",
    ),
    same("proxy", "parameter@name parameter@locked parameter/**"),
    same("proxy", "target@inSequence target@outSequence target@faultSequence target@endpoint"),
    same(
        "proxy",
        "target/inSequence/* target/outSequence/* target/faultSequence/* target/endpoint/**",
    ),
    same("proxy", "publishWSDL@uri publishWSDL@key publishWSDL@preservePolicy publishWSDL/**"),
    refused(
        "proxy",
        "publishWSDL@endpoint",
        "the description of an endpoint would have to be downloaded",
    ),
    may_differ("proxy", "@transports", "only http and https are spoken"),
    refused("proxy", "@startOnLoad", "a proxy that is not started serves nothing; leave it out"),
    refused(
        "proxy",
        "enableSec/**",
        "WS-Security of a proxy is not made of its policies, and the proxy would be open without it",
    ),
    refused("proxy", "enableRM/**", "WS-ReliableMessaging is not spoken"),
    refused(
        "proxy",
        "enableAddressing/** policy/** policy@key",
        "policies of WS-Policy are not applied",
    ),
    same(
        "proxy parameter",
        "useOriginalwsdl modifyUserWSDLPortAddress showAbsoluteSchemaURL serviceType",
    ),
    same(
        "proxy parameter",
        "disableOperationValidation ApplicationXMLBuilder.allowDTD preservePolicy",
    ),
    refused("proxy parameter", "*", "no parameter of that name is known"),
    // APIs.
    same("api", ". @name @context @hostname @port @version @version-type resource/** handlers/**"),
    refused(
        "api",
        "@publishSwagger @transports @binds-to",
        "an API is served by each listener, and describes itself by `apis`",
    ),
    same(
        "resource",
        ". @methods @uri-template @url-mapping @inSequence @outSequence @faultSequence @endpoint",
    ),
    same("resource", "inSequence/* outSequence/* faultSequence/* endpoint/**"),
    refused(
        "resource",
        "@protocol @content-type @user-agent",
        "a resource of one kind of client has no counterpart; `match: { headers }` has",
    ),
    // Sequences, templates, entries.
    same("sequence artifact", ". @name @onError /* @key"),
    same(
        "template",
        ". @name @onError parameter@name parameter@isMandatory parameter@defaultValue sequence@onError sequence/* endpoint/**",
    ),
    same("localEntry", ". @key @src /**"),
    // Endpoints.
    same(
        "endpoint",
        ". @name @key @template @uri parameter@name parameter@value address/** http/** wsdl/** default/**",
    ),
    same("endpoint", "loadbalance/** failover/** recipientlist/**"),
    differs("endpoint", "session@type session/**", "sessions stick by the cookie JSESSIONID"),
    refused("endpoint", "@key-expression", "an endpoint that is computed has no counterpart"),
    refused(
        "endpoint",
        "property@name property@value property@expression property@scope property@type",
        "a property of an endpoint has no counterpart; set it before the call",
    ),
    same(
        "address",
        ". @uri @format=soap11 @format=soap12 @format=SOAP11 @format=SOAP12 @statistics @encoding=UTF-8",
    ),
    same("address", "@format=pox @format=POX"),
    differs("address", "@format=rest @format=REST", "a SOAP message is sent with its envelope"),
    refused(
        "address",
        "@format=get @format=GET",
        "a message as the query of GET has no counterpart; write `query` of the call",
    ),
    refused(
        "address",
        "@format @optimize @encoding @method",
        "the message is sent in the form it has",
    ),
    same("http", ". @uri-template @method"),
    refused("http", "@format @optimize @encoding", "the message is sent in the form it has"),
    same(
        "wsdl",
        ". @uri @service @port @format=soap11 @format=soap12 definitions/** description/**",
    ),
    refused("wsdl", "@format @optimize @encoding", "the message is sent in the form it has"),
    same("default", ". @format=soap11 @format=soap12"),
    refused("default", "@format @optimize @encoding", "the message is sent in the form it has"),
    // Parts of all endpoints.
    same("target", "timeout/duration/** timeout/action/** timeout/responseAction/**"),
    may_differ("target", "timeout=discard", "a timeout is a fault, not a discarded reply"),
    same(
        "target",
        "suspendOnFailure/errorCodes/** suspendOnFailure/initialDuration/** suspendOnFailure/maximumDuration/** suspendOnFailure/progressionFactor/**",
    ),
    same("target", "markForSuspension/errorCodes/** markForSuspension/retriesBeforeSuspension/**"),
    may_differ("target", "markForSuspension/retryDelay/**", "`retryDelay` is left out"),
    refused(
        "target",
        "retryConfig/**",
        "codes that are not retried have no counterpart; `retry: { on }` of the upstream has those that are",
    ),
    differs(
        "target",
        "enableSec/** enableSec@policy enableSec@outboundPolicy",
        "a policy of UsernameToken and Timestamp is `ws_security` of the upstream; replies are not verified",
    ),
    refused("target", "enableSec@inboundPolicy", "WS-Security of replies is not verified"),
    refused("target", "enableRM/** enableRM@policy", "WS-ReliableMessaging is not spoken"),
    differs(
        "target",
        "enableAddressing/** enableAddressing@version=final enableAddressing@version=submission enableAddressing@separateListener=false",
        "the header has `To`, `Action`, `MessageID` and `ReplyTo`, and a message without an action is refused",
    ),
    refused(
        "target",
        "enableAddressing@version enableAddressing@separateListener",
        "replies of WS-Addressing come by the same connection here",
    ),
    differs(
        "target",
        "authentication/oauth/clientCredentials/**",
        "the secret is not copied; it is in a variable of the environment",
    ),
    refused(
        "target",
        "authentication/oauth/authorizationCode/** authentication/oauth/passwordCredentials/**",
        "OAuth for a user has no counterpart; `oauth` of an upstream is client credentials",
    ),
    refused(
        "target",
        "authentication/basicAuth/**",
        "a password for a service is not copied; `header: { set }` before the call sends `Authorization`",
    ),
    refused("target", "publishWSDL/**", "an endpoint describes nothing"),
    differs("loadbalance", "session@type session/**", "sessions stick by the cookie JSESSIONID"),
    same("loadbalance", ". @name @algorithm @policy @failover=true endpoint/** @buildMessage"),
    refused(
        "loadbalance",
        "@failover",
        "a group without failover has no counterpart; `retry` of the upstream decides",
    ),
    refused(
        "loadbalance",
        "member/** member@hostName member@httpPort member@httpsPort",
        "members by host and port are not converted; write them as endpoints",
    ),
    same("failover", ". @name @dynamic endpoint/** @buildMessage"),
    differs(
        "recipientlist",
        ". endpoint/**",
        "the replies of a recipient list are put into one message; Synapse handles each by itself",
    ),
    // Stores, processors and tasks.
    differs(
        "messageStore",
        ". @name @class parameter@name parameter/**",
        "the queue is the gateway's own and durable",
    ),
    same(
        "messageProcessor",
        ". @name @class @messageStore @targetEndpoint parameter@name parameter/**",
    ),
    same(
        "processor parameter",
        "client.retry.interval concurrency sequence target.endpoint is.active throttle quartz.conf=",
    ),
    same(
        "processor parameter",
        "max.delivery.drop max.deliver.drop message.processor.failMessagesStore non.retry.status.codes",
    ),
    same(
        "processor parameter",
        "message.processor.reply.sequence store.connection.retry.interval max.store.connection.attempts=-1",
    ),
    may_differ(
        "processor parameter",
        "max.delivery.attempts max.deliver.attempts",
        "without a limit, attempts end after a thousand; then the queue pauses, and the message keeps its place",
    ),
    may_differ(
        "processor parameter",
        "interval",
        "for the class of Apache Synapse, messages are taken as they come, not at an interval",
    ),
    may_differ(
        "processor parameter",
        "member.count",
        "with several, a message that waits for another attempt does not hold back others",
    ),
    differs(
        "processor parameter",
        "message.processor.fault.sequence",
        "the fault sequence sees the message as it was sent, and of a failed reply only that it failed",
    ),
    may_differ(
        "processor parameter",
        "message.processor.deactivate.sequence",
        "a queue that pauses runs nothing, so the parameter is refused unless the processor never stops: with a reply sequence, and `max.delivery.drop` or `failMessagesStore`",
    ),
    refused(
        "processor parameter",
        "cronExpression",
        "a queue does not begin messages at times of the day",
    ),
    refused(
        "processor parameter",
        "pinnedServers",
        "a queue is processed once in a cluster, on any node",
    ),
    refused(
        "processor parameter",
        "axis2.repo axis2.config",
        "the settings of Axis2 as a client are not read; an upstream has its own",
    ),
    refused(
        "processor parameter",
        "max.store.connection.attempts",
        "a queue waits for its store without end",
    ),
    refused(
        "processor parameter",
        "store.failed.messages",
        "what fails for good is in the dead letters of the queue",
    ),
    refused("processor parameter", "*", "no parameter of that name is known"),
    same(
        "task",
        ". @name @class @group trigger@cron trigger@interval trigger@count=-1 property@name property@value property/**",
    ),
    refused("task", "trigger@once trigger@count", "a number of runs has no counterpart"),
    refused("task", "@pinnedServers", "a task runs once in a cluster, on any node"),
    same(
        "task property",
        "message injectTo sequenceName proxyName format=soap11 format=soap12 format=pox",
    ),
    refused("task property", "format", "a message as the query of GET has no counterpart"),
    refused("task property", "*", "no property of that name is known"),
    // Inbound endpoints.
    same(
        "inboundEndpoint",
        ". @name @protocol=http @sequence @onError @suspend=false parameters/**",
    ),
    refused(
        "inboundEndpoint",
        "@suspend",
        "an endpoint that is suspended takes nothing; leave it out",
    ),
    refused("inboundEndpoint", "@protocol=https", "its certificate is in a keystore of Java"),
    refused("inboundEndpoint", "@protocol", TRANSPORT),
    refused("inboundEndpoint", "@class @interval", "code in Java is not run"),
    same("inbound parameter", "inbound.http.port"),
    refused("inbound parameter", "*", "no parameter of that name is known"),
    // Other artifacts.
    same("registry", "."),
    same("taskManager", "."),
    same("description", "."),
    refused("priority-executor", ".", "there are no executors with priorities"),
    refused("import", ".", "operations of connectors have no counterpart, but those of http"),
    // Data services.
    same(
        "data",
        ". @name @baseURI @serviceNamespace @serviceGroup @transports @disableStreaming @enableBatchRequests=false @enableBoxcarring=false",
    ),
    same(
        "data",
        "@enableDTP=false @disableLegacyBoxcarringMode @serviceStatus=active description/** config/** query/** resource/** operation/**",
    ),
    differs("data", "@enableBatchRequests=true", "a batch takes effect as a whole, or not at all"),
    differs(
        "data",
        "@enableBoxcarring=true",
        "`request_box` is there, and `begin_boxcar`, `end_boxcar` and `abort_boxcar` are not",
    ),
    refused("data", "@enableDTP", "transactions over several databases have no counterpart"),
    refused("data", "@txManagerJNDIName", "transactions are not made by Java"),
    refused("data", "@serviceStatus", "a service that is not active serves nothing; leave it out"),
    refused(
        "data",
        "policy/** enableSec/** authorization_provider/**",
        "the service would be open without it",
    ),
    refused(
        "data",
        "event-trigger/** xa-datasource/**",
        "events and distributed transactions have no counterpart",
    ),
    same("data config", ". @id @enableOData=false property@name property/**"),
    refused("data config", "@enableOData @enableAutoCommit", "OData is not spoken"),
    same("data property", "url protocol driverClassName driver username user password"),
    same(
        "data property",
        "carbon_datasource_name validationQuery validation_query testOnBorrow testWhileIdle",
    ),
    differs(
        "data property",
        "maxActive maxpoolsize minIdle maxIdle minpoolsize initialSize maxWait autocommit defaultAutoCommit",
        "a pool has 10 connections, unless `connections` says otherwise, and each statement is a transaction",
    ),
    refused(
        "data property",
        "*",
        "no data source with that property is known; databases by a URL are",
    ),
    same(
        "data query",
        ". @id @useConfig @returnUpdatedRowCount=false @returnGeneratedKeys=false @input-namespace",
    ),
    same(
        "data query",
        "sql param@name param@sqlType param@type param@paramType param@ordinal param@defaultValue param@optional",
    ),
    same(
        "data query",
        "param/validateLongRange@minimum param/validateLongRange@maximum param/validateLength@minimum param/validateLength@maximum",
    ),
    same(
        "data query",
        "param/validateDoubleRange@minimum param/validateDoubleRange@maximum param/validatePattern@pattern",
    ),
    same(
        "data query",
        "result@element result@rowName result@defaultNamespace result@useColumnNumbers=false result@escapeNonPrintableChar=false",
    ),
    same("data query", "result@outputType=xml result/element/** result/attribute/**"),
    same("data query", "result/call-query@href result/call-query@includeRowId=false"),
    same(
        "data query",
        "result/call-query/with-param@name result/call-query/with-param@query-param result/call-query/with-param@column",
    ),
    may_differ(
        "data query",
        "@returnGeneratedKeys",
        "MySQL tells the first key of a statement, from which the others are counted up",
    ),
    same("data query", "@keyColumns @returnUpdatedRowCount result@useColumnNumbers"),
    refused(
        "data query",
        "@input-event-trigger @output-event-trigger properties/**",
        "it has no counterpart",
    ),
    refused(
        "data query",
        "param@structType param@forceDefault param/validateCustom@class",
        "it has no counterpart",
    ),
    refused(
        "data query",
        "result@outputType result@xsltPath result@escapeNonPrintableChar result@rdfBaseURI",
        "it has no counterpart",
    ),
    refused(
        "data query",
        "result/element@requiredRoles result/element@export result/element@arrayName result/element@query-param",
        "it has no counterpart",
    ),
    refused(
        "data query",
        "result/attribute@requiredRoles result/attribute@export result/attribute@query-param",
        "it has no counterpart",
    ),
    same("data resource", ". @method @path @returnRequestStatus @disableStreaming description/**"),
    same(
        "data resource",
        "call-query@href call-query/with-param@name call-query/with-param@query-param",
    ),
    same("data operation", ". @name @returnRequestStatus @disableStreaming description/**"),
    same(
        "data operation",
        "call-query@href call-query/with-param@name call-query/with-param@query-param",
    ),
];
