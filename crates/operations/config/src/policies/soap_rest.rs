//! `soap_rest`: presents a SOAP service as a JSON API.

use crate::decode::{keys, words};
use crate::values::{Between, FilePath, Map, Size, Spanned};

keys! {
    /// Turns a SOAP service into a JSON API, by the types of its WSDL. Each operation is at `POST PREFIX/NAME` with its input as a JSON
    /// object; the API's OpenAPI document is at `GET PREFIX/openapi.json`.
    pub struct SoapRest {
        /// The service's WSDL 1.1 or 2.0.
        wsdl: Spanned<FilePath>,
        /// Files for locations that the WSDL or a schema refers to. Other files are searched next to it.
        imports: Map<Spanned<FilePath>> = Map::default(),
        /// One of the WSDL's services; the first if absent.
        service: Option<Spanned<String>>,
        /// One of the service's ports; if absent, the first with SOAP 1.1 over HTTP, or else 1.2.
        port: Option<Spanned<String>>,
        /// The prefix of every operation's path; the route's own path without `/**` if absent.
        prefix: Option<Spanned<String>>,
        /// The path that is sent to the upstream; that of the port's address if absent.
        path: Option<Spanned<String>>,
        /// Other paths and methods for operations, by name. Operations that are not listed keep theirs.
        operations: Map<Spanned<RestOperation>> = Map::default(),
        /// The path of the OpenAPI document below the prefix, or `off`.
        openapi: Spanned<String> = Spanned::unwritten("/openapi.json".to_owned()),
        /// The status of a SOAP fault: `kept` as the service sent it, or `by_code`: 400 if the client is to blame, else 502.
        // The same status is then in the service's own log.
        fault_status: FaultStatus = FaultStatus::Kept,
        /// Statuses of single faults, by the name of an element in the fault's detail or by a fault code.
        faults: Map<Spanned<Between<400, 599>>> = Map::default(),
        /// The largest message; 413 above for a request, 502 for a reply.
        // As for `soap`: only the text is held in memory, not a tree.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

keys! {
    /// The path and method of an operation.
    pub struct RestOperation {
        /// Its path below the prefix, such as `/orders`; its name if absent. With `GET` and `DELETE`, it may have parameters:
        /// `/orders/{id}`.
        path: Option<Spanned<String>>,
        /// Its method: `POST`, `PUT` or `PATCH` with a body of JSON, `GET` or `DELETE` with parameters of the path and the query.
        method: Spanned<RestMethod> = Spanned::unwritten(RestMethod::Post),
        /// The elements of the request that parameters set, such as `/GetOrder/range/from`, by the names of the parameters. Elements
        /// directly in the request have parameters with their own names.
        parameters: Map<Spanned<String>> = Map::default(),
    }
}

words! {
    /// A method of an operation.
    pub enum RestMethod {
        /// With parameters and without a body.
        Get = "GET",
        /// With parameters and without a body.
        Delete = "DELETE",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
    }
}

words! {
    /// The status of a service's fault.
    pub enum FaultStatus {
        /// The status of the service's reply.
        Kept = "kept",
        /// 400 if the client is to blame, else 502.
        ByCode = "by_code",
    }
}
