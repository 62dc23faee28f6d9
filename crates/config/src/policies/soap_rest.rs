//! `soap_rest`: a SOAP service as an API of JSON.

use crate::decode::{keys, words};
use crate::values::{Between, FilePath, Map, Size, Spanned};

keys! {
    /// Offers the operations of a SOAP service as an API of JSON, by the types of its WSDL. Each is at `POST PREFIX/NAME`
    /// with its input as a JSON object; the API's OpenAPI document is at `GET PREFIX/openapi.json`.
    pub struct SoapRest {
        /// The service's WSDL 1.1 or 2.0.
        wsdl: Spanned<FilePath>,
        /// Files for locations that the WSDL or a schema names; others are looked for beside it.
        imports: Map<Spanned<FilePath>> = Map::default(),
        /// Which of its services; otherwise the first.
        service: Option<Spanned<String>>,
        /// Which of the ports; otherwise the first that speaks SOAP 1.1, or else 1.2, over HTTP.
        port: Option<Spanned<String>>,
        /// The path in front of every operation; otherwise the route's own, without `/**`.
        prefix: Option<Spanned<String>>,
        /// The path the upstream sees; otherwise that of the port's address.
        path: Option<Spanned<String>>,
        /// Other paths and methods for operations, by their names. Operations that are not named here keep theirs.
        operations: Map<Spanned<RestOperation>> = Map::default(),
        /// The path of the OpenAPI document behind the prefix, or `off`.
        openapi: Spanned<String> = Spanned::unwritten("/openapi.json".to_owned()),
        /// What status a SOAP fault gets: `kept` as the service sent it, or `by_code`: 400 where the client is to blame, else 502.
        // Whoever looks at the service's own log finds the same status there.
        fault_status: FaultStatus = FaultStatus::Kept,
        /// Statuses of single faults, by the name of an element in the fault's detail or by a fault code.
        faults: Map<Spanned<Between<400, 599>>> = Map::default(),
        /// The largest message; 413 above for a request, 502 for a reply.
        // As for `soap`: what is held is the text, not a tree.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

keys! {
    /// Where an operation is.
    pub struct RestOperation {
        /// Its path behind the prefix, such as `/orders`; otherwise its name.
        path: Option<Spanned<String>>,
        /// Its method: `POST`, `PUT` or `PATCH`.
        method: Spanned<RestMethod> = Spanned::unwritten(RestMethod::Post),
    }
}

words! {
    /// A method that has a body.
    pub enum RestMethod {
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
    }
}

words! {
    /// What status a fault of the service gets.
    pub enum FaultStatus {
        /// The one it came with.
        Kept = "kept",
        /// 400 where the client is to blame, else 502.
        ByCode = "by_code",
    }
}
