"""zeep with a UsernameToken against the gateway: `zeep_security.py WSDL ENDPOINT`. Prints what it got, a line each; the test compares."""

import sys

import zeep
from zeep.wsse.username import UsernameToken

wsdl, endpoint = sys.argv[1:]


def add(token):
    client = zeep.Client(wsdl, wsse=token)
    return client.create_service("{http://tempuri.org/}CalculatorSoap", endpoint).Add(5, 7)


print("digest", add(UsernameToken("alice", "sesame", use_digest=True)))
print("text", add(UsernameToken("alice", "sesame")))
try:
    add(UsernameToken("alice", "guess"))
except zeep.exceptions.Fault as fault:
    print("wrong", fault.code)
