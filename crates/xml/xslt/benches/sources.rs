//! Documents that benches transform.

/// Name and text: the 345 bytes of a SOAP request, and lists of orders.
pub(crate) fn all() -> [(&'static str, String); 3] {
    [("345", REQUEST.to_owned()), ("10000", orders(10_000)), ("100000", orders(100_000))]
}

const REQUEST: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
<soap:Envelope xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\">\n  <soap:Body>\n    \
<Add xmlns=\"http://tempuri.org/\">\n      <intA>17</intA>\n      <intB>25</intB>\n    </Add>\n  \
</soap:Body>\n</soap:Envelope>\n";

fn orders(bytes: usize) -> String {
    let mut text = String::from("<orders xmlns=\"urn:example:orders\">\n");
    let mut number = 1;
    while text.len() < bytes {
        text.push_str(&format!(
            "  <order id=\"o{number}\" currency=\"EUR\">\n    <item>Widget &amp; Co {number}</item>\n    \
             <quantity>{}</quantity>\n    <price>{}.95</price>\n  </order>\n",
            number % 7 + 1,
            number % 100
        ));
        number += 1;
    }
    text.push_str("</orders>\n");
    text
}
