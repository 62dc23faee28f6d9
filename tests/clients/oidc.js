// An OpenID provider as others write them: npm oidc-provider on a free port, with one client that asks for itself.
// Says `ISSUER` on its first line; each line that it reads replaces its signing key, and is answered with the new one's id.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;

function key() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg: "RS256" };
}

// Tokens of `urn:jwt` are signed, those of `urn:opaque` only this server can read.
function resource(_ctx, name) {
  return {
    scope: "orders:read orders:write",
    audience: name,
    accessTokenTTL: 600,
    accessTokenFormat: name === "urn:jwt" ? "jwt" : "opaque",
    jwt: { sign: { alg: "RS256" } },
  };
}

let current;
function serve() {
  const signing = key();
  const provider = new Provider(issuer, {
    jwks: { keys: [signing] },
    clients: [
      {
        client_id: "shop",
        client_secret: "geheim",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    scopes: ["orders:read", "orders:write"],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true },
      resourceIndicators: { enabled: true, getResourceServerInfo: resource },
      revocation: { enabled: true },
    },
  });
  current = provider.callback();
  return signing.kid;
}

serve();
server.on("request", (request, reply) => current(request, reply));
console.log(issuer);
createInterface({ input: process.stdin })
  .on("line", () => console.log(serve()))
  .on("close", () => process.exit(0));
