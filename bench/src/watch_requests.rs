//! Requests for watches, and the event of their end, for the benchmarks that answer such requests
//! themselves or change the answers of a server.

use http::Request;

/// The event with which a server ends a watch whose version it does not know any more.
pub const EXPIRED: &[u8] =
    b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
    \"status\":\"Failure\",\"message\":\"too old resource version\",\"reason\":\"Expired\",\
    \"code\":410}}\n";

/// Returns whether the request is for a watch.
pub fn is_watch<B>(request: &Request<B>) -> bool {
    has_parameter(request, "watch=true")
}

/// Returns whether the query of the request has this parameter, such as `resourceVersion=1`.
pub fn has_parameter<B>(request: &Request<B>, parameter: &str) -> bool {
    request.uri().query().unwrap_or_default().split('&').any(|other| other == parameter)
}
