// node-soap from the URL of a description alone: `soap_described.mjs URL`. Prints what it got; the test compares.
import { createRequire } from "node:module";

// Installed beside the other clients, not beside this file.
const soap = createRequire(`${process.env.NODE_CLIENTS}/`)("soap");
const client = await soap.createClientAsync(process.argv[2]);
const [got] = await client.GetAsync({ id: 5 });
console.log(got.name);
