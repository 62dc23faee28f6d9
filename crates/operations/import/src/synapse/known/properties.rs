//! Properties: those with a meaning of their own, by their scopes, and names that expressions read.

use super::{Part, differs, may_differ, refused, same};

pub(super) const PROPERTIES: &[Part] = &[
    same("property default", "*"),
    same(
        "property default",
        "RESPONSE OUT_ONLY=false preserveProcessedHeaders PRESERVE_WS_ADDRESSING enableREST",
    ),
    differs(
        "property default",
        "OUT_ONLY",
        "the client gets 202; there it waits, unless `FORCE_SC_ACCEPTED` is set too",
    ),
    differs(
        "property default",
        "FORCE_ERROR_ON_SOAP_FAULT",
        "a SOAP fault of the service is told by its status 5xx",
    ),
    same("property transport", "*"),
    differs(
        "property transport",
        "Content-Type content-type SOAPAction",
        "Synapse writes the one of the message in its place",
    ),
    same(
        "property axis2",
        "HTTP_SC HTTP_METHOD REST_URL_POSTFIX messageType messageType=application/json NO_ENTITY_BODY=false",
    ),
    differs(
        "property axis2",
        "messageType=application/xml messageType=text/plain",
        "the content type is the one that it names, as in Micro Integrator; Synapse keeps that of the request",
    ),
    differs(
        "property axis2",
        "messageType=text/xml messageType=application/soap+xml",
        "plain XML and SOAP of the other version get an envelope of that version and its content type; Synapse itself sends them as they came",
    ),
    may_differ(
        "property axis2",
        "ContentType Content-Type",
        "SOAP gets it too, for which Synapse keeps its own unless `messageType` is another",
    ),
    differs(
        "property axis2",
        "HTTP_METHOD=GET HTTP_METHOD=HEAD HTTP_METHOD=DELETE HTTP_METHOD=OPTIONS",
        "a message with that method is sent without its body",
    ),
    differs(
        "property axis2",
        "NO_ENTITY_BODY",
        "the body is empty, and the content type that of text",
    ),
    same(
        "property axis2",
        "DISABLE_CHUNKING FORCE_HTTP_1.0 PRESERVE_WS_ADDRESSING FORCE_HTTP_CONTENT_LENGTH",
    ),
    same(
        "property axis2",
        "COPY_CONTENT_LENGTH_FROM_INCOMING ClientApiNonBlocking transportNonBlocking",
    ),
    differs("property axis2", "OUT_ONLY", "the reply is waited for and then dropped"),
    differs(
        "property axis2",
        "FORCE_SC_ACCEPTED",
        "the client gets its 202 when the service has answered, not before",
    ),
    refused(
        "property axis2",
        "TRANSPORT_HEADERS",
        "all headers at once cannot be removed; name them in `header: { remove }`",
    ),
    same(
        "property axis2",
        "enableMTOM=false enableSwA=false POST_TO_URI=false OUT_ONLY=false FORCE_SC_ACCEPTED=false",
    ),
    refused("property axis2", "enableMTOM enableSwA", "attachments are not made of elements"),
    refused(
        "property axis2",
        "setCharacterEncoding CHARACTER_SET_ENCODING",
        "messages are written in UTF-8",
    ),
    refused(
        "property axis2",
        "POST_TO_URI",
        "a whole URL in the request line is what a forward proxy gets",
    ),
    refused("property axis2", "HTTP_SC_DESC", "the reason of a status is the one that HTTP names"),
    refused("property axis2", "*", "it says something to axis2, which is not here"),
    refused(
        "property axis2-client",
        "*",
        "it says something to a client of axis2, which is not here",
    ),
    refused(
        "property registry",
        "*",
        "there is no registry; a file beside the configuration has what changes seldom",
    ),
    refused("property system", "*", "it is read at run time; write `${NAME}` where it is used"),
    refused("property analytics", "*", "there is no event sink"),
    // Names that expressions read.
    same("name", "ERROR_CODE"),
    differs("name", "ERROR_MESSAGE ERROR_DETAIL ERROR_EXCEPTION", "the text is the gateway's own"),
    same("name", "uri.var.* query.param.* REST_METHOD HTTP_METHOD HTTP_SC"),
    same(
        "name",
        "Action WSAction SOAPAction messageType ContentType To REST_API_CONTEXT REST_API_VERSION proxy.name",
    ),
    differs(
        "name",
        "MessageID",
        "it is the identifier of the request, which its parts and the reply have too",
    ),
    differs("name", "SERVER_IP", "it is the address that the client connected to"),
    refused("name", "SYSTEM_DATE SYSTEM_TIME", "it is read at run time, and no name here has it"),
    refused(
        "name",
        "REST_FULL_REQUEST_PATH REST_SUB_REQUEST_PATH FAULT MESSAGE_FORMAT OperationName",
        "no name here has it",
    ),
    refused(
        "name",
        "From ReplyTo FaultTo RelatesTo",
        "addresses of WS-Addressing are read by `$header`",
    ),
    same("name", "FOREACH_ORIGINAL_MESSAGE FOREACH_COUNTER"),
];
