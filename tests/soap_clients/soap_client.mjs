// node-soap against the gateway: `soap_client.mjs WSDL ENDPOINT VERSION`. Prints what it got, a line each; the test compares.
import { createRequire } from "node:module";

// Installed beside the other clients, not beside this file.
const soap = createRequire(`${process.env.NODE_CLIENTS}/`)("soap");
const [wsdl, endpoint, version] = process.argv.slice(2);
const twelve = version === "2";
const client = await soap.createClientAsync(wsdl, { endpoint, forceSoap12Headers: twelve });
const port = client.Calculator[twelve ? "CalculatorSoap12" : "CalculatorSoap"];
const call = (name, intA, intB) =>
  new Promise((done) => port[name]({ intA, intB }, (error, result) => done({ error, result })));
// A fault's reason stands elsewhere in SOAP 1.2.
const reason = ({ error }) => {
  const fault = error.root?.Envelope?.Body?.Fault;
  const text = fault?.faultstring ?? fault?.Reason?.Text;
  return text?.$value ?? text ?? String(error);
};

console.log("Add", (await call("Add", 5, 7)).result.AddResult);
console.log("Subtract", (await call("Subtract", 5, 7)).result.SubtractResult);
console.log("Multiply", (await call("Multiply", -3, 4)).result.MultiplyResult);
console.log("Divide", reason(await call("Divide", 1, 0)));
console.log("Refused", reason(await call("Add", 5, "much")));
