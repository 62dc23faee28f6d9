// node-soap from the URL of a description alone: `soap_described.mjs URL`. Prints what it got; the test compares.
// With a second argument it prints the operations instead.
import { createRequire } from "node:module";

// Installed beside the other clients, not beside this file.
const soap = createRequire(`${process.env.NODE_CLIENTS}/`)("soap");
const client = await soap.createClientAsync(process.argv[2]);
if (process.argv.length > 3) {
  for (const service of Object.values(client.describe())) {
    for (const port of Object.values(service)) console.log(Object.keys(port).join("\n"));
  }
} else {
  const [got] = await client.GetAsync({ id: 5 });
  console.log(got.name);
}
