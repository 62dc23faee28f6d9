/*
 * SOAP messages by libxml2 and libxslt in nginx: schemas, SOAPAction, stylesheets and routing by XPath, on requests and replies, in the
 * order in which the directives stand. The peer of Tidegate's policies in load tests; a message that fails is 500 without a fault's text.
 *
 *   xml_validate request|response ENVELOPE [WSDL|XSD];
 *   xml_action WSDL;
 *   xml_transform request|response STYLESHEET;
 *   xml_route XPATH VALUE BACKEND [PREFIX=NAMESPACE]...;
 *   xml_otherwise BACKEND;            the value of $xml_backend where no route fits
 *   xml_compile_each on;              compiles schemas, descriptions and stylesheets again for each message, to show what that costs
 */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xmlschemas.h>
#include <libxml/xpath.h>
#include <libxml/xpathInternals.h>
#include <libxslt/transform.h>
#include <libxslt/xsltInternals.h>
#include <libxslt/xsltutils.h>

#define SOAP "http://schemas.xmlsoap.org/soap/envelope/"
/* A body above this is refused, not read. */
#define BODY_MAX (16 << 20)

typedef enum { VALIDATE, ACTION, TRANSFORM, ROUTE } kind_t;

/* A schema needs its document as long as it lives. */
typedef struct {
    xmlSchemaPtr schema;
    xmlDocPtr doc;
} compiled_t;

typedef struct {
    kind_t kind;
    compiled_t envelope, body;
    const char *file, *body_file;   /* of the envelope, WSDL or stylesheet; of the schema */
    xmlDocPtr wsdl;
    xsltStylesheetPtr sheet;
    xmlXPathCompExprPtr path;
    ngx_str_t equals, backend;
    ngx_array_t *names;   /* of ngx_str_t "PREFIX=NAMESPACE" */
} step_t;

typedef struct {
    ngx_array_t *request, *response;   /* of step_t */
    ngx_flag_t each;
    ngx_http_complex_value_t *otherwise;
} loc_t;

typedef struct {
    unsigned done:1, reply:1;
    ngx_int_t status;
    ngx_str_t backend;
    u_char *text;
    size_t length, room;
} ctx_t;

static ngx_int_t before(ngx_conf_t *cf);
static ngx_int_t after(ngx_conf_t *cf);
static void *create(ngx_conf_t *cf);
static char *merge(ngx_conf_t *cf, void *parent, void *child);
static char *directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static ngx_http_output_header_filter_pt next_header;
static ngx_http_output_body_filter_pt next_body;

static ngx_command_t commands[] = {
    { ngx_string("xml_validate"), NGX_HTTP_LOC_CONF|NGX_CONF_TAKE23, directive, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },
    { ngx_string("xml_action"), NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1, directive, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },
    { ngx_string("xml_transform"), NGX_HTTP_LOC_CONF|NGX_CONF_TAKE2, directive, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },
    { ngx_string("xml_route"), NGX_HTTP_LOC_CONF|NGX_CONF_2MORE, directive, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },
    { ngx_string("xml_compile_each"), NGX_HTTP_LOC_CONF|NGX_CONF_FLAG, ngx_conf_set_flag_slot, NGX_HTTP_LOC_CONF_OFFSET, offsetof(loc_t, each), NULL },
    { ngx_string("xml_otherwise"), NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1, ngx_http_set_complex_value_slot, NGX_HTTP_LOC_CONF_OFFSET, offsetof(loc_t, otherwise), NULL },
    ngx_null_command
};

static ngx_http_module_t callbacks = { before, after, NULL, NULL, NULL, NULL, create, merge };

ngx_module_t ngx_http_xml_steps_module = {
    NGX_MODULE_V1, &callbacks, commands, NGX_HTTP_MODULE, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NGX_MODULE_V1_PADDING
};

static void silent(void *ctx, const char *format, ...) {}
static void quiet(void *ctx, xmlErrorPtr error) {}

static xmlNodePtr child(xmlNodePtr node, const char *name) {
    for (node = node ? node->children : NULL; node; node = node->next)
        if (node->type == XML_ELEMENT_NODE && (!name || !strcmp((const char *) node->name, name))) return node;
    return NULL;
}

/* The element in the SOAP body, or the root where there is no envelope. */
static xmlNodePtr content(xmlDocPtr doc) {
    xmlNodePtr root = xmlDocGetRootElement(doc);
    if (!root || !root->ns || strcmp((const char *) root->ns->href, SOAP)) return root;
    return child(child(root, "Body"), NULL);
}

/* A document of its own with a copy of the element, and all prefixes that it can use. */
static xmlDocPtr apart(xmlNodePtr node) {
    xmlDocPtr doc = xmlNewDoc((const xmlChar *) "1.0");
    xmlNodePtr copy = doc ? xmlDocCopyNode(node, doc, 1) : NULL;
    xmlNsPtr *names, *each;
    if (!copy) { xmlFreeDoc(doc); return NULL; }
    xmlDocSetRootElement(doc, copy);
    names = xmlGetNsList(node->doc, node);
    for (each = names; each && *each; each++)
        if (!xmlSearchNs(doc, copy, (*each)->prefix)) xmlNewNs(copy, (*each)->href, (*each)->prefix);
    xmlFree(names);
    return doc;
}

/* The schema of a file, which may stand in a WSDL. It is null if it does not compile. */
static compiled_t compile(const char *file) {
    compiled_t made = { NULL, xmlReadFile(file, NULL, XML_PARSE_NONET) };
    xmlSchemaParserCtxtPtr parser;
    xmlNodePtr root = made.doc ? xmlDocGetRootElement(made.doc) : NULL, node;
    xmlDocPtr inner;
    if (!root) return made;
    if (!strcmp((const char *) root->name, "definitions")) {
        node = child(child(root, "types"), "schema");
        inner = node ? apart(node) : NULL;
        xmlFreeDoc(made.doc);
        made.doc = inner;
        if (!inner) return made;
    }
    parser = xmlSchemaNewDocParserCtxt(made.doc);
    made.schema = xmlSchemaParse(parser);
    xmlSchemaFreeParserCtxt(parser);
    return made;
}

static void discard(compiled_t made) {
    xmlSchemaFree(made.schema);
    xmlFreeDoc(made.doc);
}

static xmlDocPtr description(const char *file) { return xmlReadFile(file, NULL, XML_PARSE_NONET | XML_PARSE_NOBLANKS); }

static int fits(compiled_t by, xmlDocPtr doc) {
    xmlSchemaValidCtxtPtr ctxt = by.schema ? xmlSchemaNewValidCtxt(by.schema) : NULL;
    int outcome;
    if (!ctxt) return 0;
    xmlSchemaSetValidStructuredErrors(ctxt, quiet, NULL);
    outcome = xmlSchemaValidateDoc(ctxt, doc);
    xmlSchemaFreeValidCtxt(ctxt);
    return outcome == 0;
}

static int validate(compiled_t envelope, compiled_t body, int has_body, xmlDocPtr doc) {
    xmlNodePtr node;
    xmlDocPtr inner;
    int good;
    if (!fits(envelope, doc)) return 0;
    if (!has_body) return 1;
    node = content(doc);
    inner = node ? apart(node) : NULL;
    if (!inner) return 0;
    good = fits(body, inner);
    xmlFreeDoc(inner);
    return good;
}

static int validate_step(step_t *step, xmlDocPtr doc, int each) {
    compiled_t envelope = step->envelope, body = step->body;
    int good;
    if (each) {
        envelope = compile(step->file);
        if (step->body_file) body = compile(step->body_file);
    }
    good = validate(envelope, body, step->body_file != NULL, doc);
    if (each) {
        discard(envelope);
        discard(body);
    }
    return good;
}

/* The action that a binding of the WSDL gives the operation of the body's element. */
static int action(xmlDocPtr wsdl, xmlDocPtr doc, ngx_http_request_t *r) {
    xmlNodePtr node = content(doc), binding, operation, soap;
    ngx_list_part_t *part = &r->headers_in.headers.part;
    ngx_table_elt_t *line = part->elts;
    ngx_str_t sent = ngx_null_string;
    ngx_uint_t i;
    xmlChar *name, *wanted;
    int good = 0;
    for (i = 0; node; i++) {
        if (i >= part->nelts) {
            if (!(part = part->next)) break;
            line = part->elts;
            i = 0;
        }
        if (line[i].key.len == 10 && !ngx_strncasecmp(line[i].key.data, (u_char *) "SOAPAction", 10)) sent = line[i].value;
    }
    if (sent.len >= 2 && sent.data[0] == '"' && sent.data[sent.len - 1] == '"') { sent.data++; sent.len -= 2; }
    for (binding = node ? child(xmlDocGetRootElement(wsdl), NULL) : NULL; binding && !good; binding = binding->next) {
        if (strcmp((const char *) binding->name, "binding")) continue;
        for (operation = binding->children; operation && !good; operation = operation->next) {
            if (strcmp((const char *) operation->name, "operation")) continue;
            name = xmlGetProp(operation, (const xmlChar *) "name");
            soap = child(operation, "operation");
            wanted = soap ? xmlGetProp(soap, (const xmlChar *) "soapAction") : NULL;
            good = name && wanted && sent.len && xmlStrEqual(name, node->name)
                && strlen((char *) wanted) == sent.len && !ngx_strncmp(wanted, sent.data, sent.len);
            xmlFree(name);
            xmlFree(wanted);
        }
    }
    return good;
}

static int action_step(step_t *step, xmlDocPtr doc, ngx_http_request_t *r, int each) {
    xmlDocPtr wsdl = each ? description(step->file) : step->wsdl;
    int good = wsdl && action(wsdl, doc, r);
    if (each) xmlFreeDoc(wsdl);
    return good;
}

static int route(step_t *step, xmlDocPtr doc, ctx_t *ctx) {
    xmlXPathContextPtr context = xmlXPathNewContext(doc);
    xmlXPathObjectPtr found;
    xmlChar *text;
    ngx_uint_t i;
    if (!context) return 0;
    xmlXPathRegisterNs(context, (const xmlChar *) "soap", (const xmlChar *) SOAP);
    for (i = 0; i < step->names->nelts; i++) {
        char *pair = (char *) ((ngx_str_t *) step->names->elts)[i].data, *mark = strchr(pair, '=');
        if (!mark) continue;
        xmlChar *prefix = xmlStrndup((xmlChar *) pair, mark - pair);
        xmlXPathRegisterNs(context, prefix, (xmlChar *) mark + 1);
        xmlFree(prefix);
    }
    found = xmlXPathCompiledEval(step->path, context);
    text = found ? xmlXPathCastToString(found) : NULL;
    if (text && strlen((char *) text) == step->equals.len && !ngx_strncmp(text, step->equals.data, step->equals.len)) ctx->backend = step->backend;
    xmlFree(text);
    xmlXPathFreeObject(found);
    xmlXPathFreeContext(context);
    return 1;
}

static int without_empty_namespaces(char *text, int length) {
    static const char EMPTY[] = " xmlns=\"\"";
    char *from = text, *to = text, *end = text + length;
    while (from < end) {
        if ((size_t) (end - from) >= sizeof(EMPTY) - 1 && !memcmp(from, EMPTY, sizeof(EMPTY) - 1)) from += sizeof(EMPTY) - 1;
        else *to++ = *from++;
    }
    return (int) (to - text);
}

/* Runs the steps over a message. The new text is in the request's pool; no change leaves it alone. Zero is a failure. */
static int run(ngx_array_t *steps, ngx_http_request_t *r, ctx_t *ctx, ngx_str_t *message, int each) {
    xmlDocPtr doc, next;
    xsltStylesheetPtr last = NULL, sheet;
    step_t *step = steps->elts;
    ngx_uint_t i;
    int good = 1, length = 0;
    xmlChar *text = NULL;
    if (message->len > BODY_MAX) return 0;
    doc = xmlReadMemory((char *) message->data, (int) message->len, NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    for (i = 0; doc && good && i < steps->nelts; i++) {
        switch (step[i].kind) {
        case VALIDATE: good = validate_step(&step[i], doc, each); break;
        case ACTION: good = action_step(&step[i], doc, r, each); break;
        case ROUTE: good = route(&step[i], doc, ctx); break;
        case TRANSFORM:
            sheet = each ? xsltParseStylesheetFile((const xmlChar *) step[i].file) : step[i].sheet;
            next = sheet ? xsltApplyStylesheet(sheet, doc, NULL) : NULL;
            xmlFreeDoc(doc);
            doc = next;
            if (each && last) xsltFreeStylesheet(last);
            last = sheet;
            break;
        }
    }
    if (doc && good && last) {
        good = xsltSaveResultToString(&text, &length, doc, last) == 0 && text;
        /* Literal elements of stylesheets belong to the service's namespace, as Kong's plugin has it. */
        if (good) length = without_empty_namespaces((char *) text, length);
        if (good) {
            message->data = ngx_pnalloc(r->pool, length);
            good = message->data != NULL;
        }
        if (good) {
            ngx_memcpy(message->data, text, length);
            message->len = length;
        }
        xmlFree(text);
    }
    good = good && doc;
    xmlFreeDoc(doc);
    if (each && last) xsltFreeStylesheet(last);
    return good;
}

static void body_is_there(ngx_http_request_t *r) {
    loc_t *loc = ngx_http_get_module_loc_conf(r, ngx_http_xml_steps_module);
    ctx_t *ctx = ngx_http_get_module_ctx(r, ngx_http_xml_steps_module);
    ngx_chain_t *in;
    ngx_str_t message = ngx_null_string;
    size_t room = 0;
    u_char *at, *old;
    ngx_buf_t *buffer;

    ctx->done = 1;
    ctx->status = NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (!r->request_body) goto on;
    for (in = r->request_body->bufs; in; in = in->next) room += ngx_buf_size(in->buf);
    if (room > BODY_MAX || !(at = message.data = ngx_pnalloc(r->pool, room + 1))) goto on;
    for (in = r->request_body->bufs; in; in = in->next) {
        if (in->buf->in_file) {
            ssize_t got = ngx_read_file(in->buf->file, at, in->buf->file_last - in->buf->file_pos, in->buf->file_pos);
            if (got < 0) goto on;
            at += got;
        } else at = ngx_cpymem(at, in->buf->pos, in->buf->last - in->buf->pos);
    }
    message.len = at - message.data;
    old = message.data;
    if (!run(loc->request, r, ctx, &message, loc->each == 1)) goto on;
    ctx->status = NGX_DECLINED;
    if (message.data == old) goto on;
    if (!(buffer = ngx_create_temp_buf(r->pool, 0)) || !(in = ngx_alloc_chain_link(r->pool))) {
        ctx->status = NGX_HTTP_INTERNAL_SERVER_ERROR;
        goto on;
    }
    buffer->start = buffer->pos = message.data;
    buffer->end = buffer->last = message.data + message.len;
    buffer->memory = 1;
    buffer->temporary = 0;
    buffer->last_buf = 1;
    in->buf = buffer;
    in->next = NULL;
    r->request_body->bufs = in;
    r->request_body->temp_file = NULL;
    r->headers_in.content_length_n = message.len;
    r->headers_in.chunked = 0;
on:
    r->preserve_body = 1;
    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}

static ngx_int_t handle(ngx_http_request_t *r) {
    loc_t *loc = ngx_http_get_module_loc_conf(r, ngx_http_xml_steps_module);
    ctx_t *ctx = ngx_http_get_module_ctx(r, ngx_http_xml_steps_module);
    ngx_int_t rc;
    if (r != r->main || (!loc->request && !loc->response)) return NGX_DECLINED;
    if (ctx) return ctx->done ? ctx->status : NGX_DONE;
    if (!(ctx = ngx_pcalloc(r->pool, sizeof(ctx_t)))) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ngx_http_set_ctx(r, ctx, ngx_http_xml_steps_module);
    if (!loc->request) {
        ctx->done = 1;
        ctx->status = NGX_DECLINED;
        return NGX_DECLINED;
    }
    rc = ngx_http_read_client_request_body(r, body_is_there);
    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) return rc;
    ngx_http_finalize_request(r, NGX_DONE);
    return NGX_DONE;
}

static ngx_int_t header_filter(ngx_http_request_t *r) {
    loc_t *loc = ngx_http_get_module_loc_conf(r, ngx_http_xml_steps_module);
    ctx_t *ctx = ngx_http_get_module_ctx(r, ngx_http_xml_steps_module);
    if (!ctx || !loc->response || r->headers_out.status != NGX_HTTP_OK || r->header_only || !ctx->done || ctx->status != NGX_DECLINED)
        return next_header(r);
    ctx->reply = 1;
    r->main_filter_need_in_memory = 1;
    return NGX_OK;
}

static ngx_int_t body_filter(ngx_http_request_t *r, ngx_chain_t *in) {
    loc_t *loc = ngx_http_get_module_loc_conf(r, ngx_http_xml_steps_module);
    ctx_t *ctx = ngx_http_get_module_ctx(r, ngx_http_xml_steps_module);
    ngx_str_t message;
    ngx_buf_t *buffer;
    ngx_chain_t out;
    ngx_int_t rc;
    int last = 0;
    if (!ctx || !ctx->reply || !in) return next_body(r, in);
    for (; in; in = in->next) {
        size_t size = in->buf->last - in->buf->pos;
        if (ctx->length + size > BODY_MAX) return ngx_http_filter_finalize_request(r, &ngx_http_xml_steps_module, NGX_HTTP_BAD_GATEWAY);
        if (ctx->length + size > ctx->room) {
            size_t room = ngx_max(ctx->room * 2, ctx->length + size + 4096);
            u_char *text = ngx_pnalloc(r->pool, room);
            if (!text) return NGX_ERROR;
            if (ctx->length) ngx_memcpy(text, ctx->text, ctx->length);
            ctx->text = text;
            ctx->room = room;
        }
        if (size) ngx_memcpy(ctx->text + ctx->length, in->buf->pos, size);
        ctx->length += size;
        in->buf->pos = in->buf->last;
        last |= in->buf->last_buf;
    }
    if (!last) return NGX_OK;
    ctx->reply = 0;
    message.data = ctx->text;
    message.len = ctx->length;
    if (!run(loc->response, r, ctx, &message, loc->each == 1)) {
        ctx->status = NGX_HTTP_INTERNAL_SERVER_ERROR;
        return ngx_http_filter_finalize_request(r, &ngx_http_xml_steps_module, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
    ngx_http_clear_content_length(r);
    ngx_http_clear_etag(r);
    r->headers_out.content_length_n = message.len;
    rc = next_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) return rc;
    if (!(buffer = ngx_calloc_buf(r->pool))) return NGX_ERROR;
    buffer->pos = message.data;
    buffer->last = message.data + message.len;
    buffer->memory = 1;
    buffer->last_buf = 1;
    out.buf = buffer;
    out.next = NULL;
    return next_body(r, &out);
}

static ngx_int_t backend(ngx_http_request_t *r, ngx_http_variable_value_t *value, uintptr_t data) {
    loc_t *loc = ngx_http_get_module_loc_conf(r, ngx_http_xml_steps_module);
    ctx_t *ctx = ngx_http_get_module_ctx(r, ngx_http_xml_steps_module);
    ngx_str_t name = ngx_null_string;
    if (ctx && ctx->backend.len) name = ctx->backend;
    else if (loc->otherwise && ngx_http_complex_value(r, loc->otherwise, &name) != NGX_OK) return NGX_ERROR;
    value->data = name.data;
    value->len = name.len;
    value->valid = 1;
    value->no_cacheable = 1;
    value->not_found = 0;
    return NGX_OK;
}

static char *directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf) {
    loc_t *loc = conf;
    ngx_str_t *word = cf->args->elts;
    ngx_uint_t i, at = 1;
    ngx_array_t **steps = &loc->request;
    step_t *step;
    if (cmd->name.len == sizeof("xml_validate") - 1 || cmd->name.len == sizeof("xml_transform") - 1) {
        if (!ngx_strcmp(word[1].data, "response")) steps = &loc->response;
        else if (ngx_strcmp(word[1].data, "request")) return "wants `request` or `response`";
        at = 2;
    }
    if (!*steps && !(*steps = ngx_array_create(cf->pool, 4, sizeof(step_t)))) return NGX_CONF_ERROR;
    if (!(step = ngx_array_push(*steps))) return NGX_CONF_ERROR;
    ngx_memzero(step, sizeof(step_t));
    if (!ngx_strcmp(cmd->name.data, "xml_validate")) {
        step->kind = VALIDATE;
        step->file = (char *) word[2].data;
        if (!(step->envelope = compile(step->file)).schema) return "cannot compile the envelope's schema";
        if (cf->args->nelts > 3) {
            step->body_file = (char *) word[3].data;
            if (!(step->body = compile(step->body_file)).schema) return "cannot compile the schema";
        }
    } else if (!ngx_strcmp(cmd->name.data, "xml_action")) {
        step->kind = ACTION;
        step->file = (char *) word[at].data;
        if (!(step->wsdl = description(step->file))) return "cannot read the WSDL";
    } else if (!ngx_strcmp(cmd->name.data, "xml_transform")) {
        step->kind = TRANSFORM;
        step->file = (char *) word[at].data;
        if (!(step->sheet = xsltParseStylesheetFile(word[at].data))) return "cannot compile the stylesheet";
    } else {
        step->kind = ROUTE;
        if (cf->args->nelts < 4) return "wants a path, a value and a backend";
        if (!(step->path = xmlXPathCompile(word[1].data))) return "cannot compile the path";
        step->equals = word[2];
        step->backend = word[3];
        if (!(step->names = ngx_array_create(cf->pool, 2, sizeof(ngx_str_t)))) return NGX_CONF_ERROR;
        for (i = 4; i < cf->args->nelts; i++) *(ngx_str_t *) ngx_array_push(step->names) = word[i];
    }
    return NGX_CONF_OK;
}

static void *create(ngx_conf_t *cf) {
    loc_t *loc = ngx_pcalloc(cf->pool, sizeof(loc_t));
    if (loc) loc->each = NGX_CONF_UNSET;
    return loc;
}
static char *merge(ngx_conf_t *cf, void *parent, void *child) { return NGX_CONF_OK; }

static ngx_int_t before(ngx_conf_t *cf) {
    ngx_str_t name = ngx_string("xml_backend");
    ngx_http_variable_t *variable = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);
    if (!variable) return NGX_ERROR;
    variable->get_handler = backend;
    xmlInitParser();
    xmlSetGenericErrorFunc(NULL, silent);
    xsltSetGenericErrorFunc(NULL, silent);
    return NGX_OK;
}

static ngx_int_t after(ngx_conf_t *cf) {
    ngx_http_core_main_conf_t *main = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    ngx_http_handler_pt *handler = ngx_array_push(&main->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (!handler) return NGX_ERROR;
    *handler = handle;
    next_header = ngx_http_top_header_filter;
    ngx_http_top_header_filter = header_filter;
    next_body = ngx_http_top_body_filter;
    ngx_http_top_body_filter = body_filter;
    return NGX_OK;
}
