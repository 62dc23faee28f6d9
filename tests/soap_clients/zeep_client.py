"""zeep against the gateway: `zeep_client.py WSDL ENDPOINT VERSION`. Prints what it got, a line each; the test compares."""

import sys

import zeep

wsdl, endpoint, version = sys.argv[1:]
port = "{http://tempuri.org/}CalculatorSoap" + ("12" if version == "2" else "")
service = zeep.Client(wsdl).create_service(port, endpoint)

print("Add", service.Add(5, 7))
print("Subtract", service.Subtract(intA=5, intB=7))
print("Multiply", service.Multiply(intA=-3, intB=4))
try:
    service.Divide(intA=1, intB=0)
except zeep.exceptions.Fault as fault:
    print("Divide", fault.message)
# More than 32 bits: zeep lets it pass, the gateway does not.
try:
    service.Add(5, 99999999999)
except zeep.exceptions.Fault as fault:
    print("Refused", fault.code, fault.message)
