// gSOAP against the gateway: `client1 ENDPOINT 1`, `client2 ENDPOINT 2`. Prints what it got, a line each; the test compares.
#include <cstdio>
#include <cstdlib>

#include "CalculatorSoap.nsmap"
#include "soapCalculatorSoapProxy.h"

int main(int, char **arguments) {
  const char *endpoint = arguments[1];
  CalculatorSoapProxy calculator;

  _tempuri__Add add;
  add.intA = 5;
  add.intB = 7;
  _tempuri__AddResponse added;
  if (calculator.Add(endpoint, nullptr, &add, added) != SOAP_OK) {
    calculator.soap_stream_fault(std::cerr);
    return 1;
  }
  printf("Add %d\n", added.AddResult);

  // Where the WSDL does not require an action, gSOAP makes up one of its own unless it is told.
  _tempuri__Subtract subtract;
  subtract.intA = 5;
  subtract.intB = 7;
  _tempuri__SubtractResponse subtracted;
  if (calculator.Subtract(endpoint, "http://tempuri.org/Subtract", &subtract, subtracted) != SOAP_OK) {
    calculator.soap_stream_fault(std::cerr);
    return 1;
  }
  printf("Subtract %d\n", subtracted.SubtractResult);

  _tempuri__Divide divide;
  divide.intA = 1;
  divide.intB = 0;
  _tempuri__DivideResponse divided;
  if (calculator.Divide(endpoint, "http://tempuri.org/Divide", &divide, divided) == SOAP_OK) return 1;
  printf("Divide %s\n", calculator.soap_fault_string());

  // The gateway refuses an action that is another operation's. In SOAP 1.2 it does not look: gSOAP says the action twice.
  if (atoi(arguments[2]) == 2) return 0;
  if (calculator.Add(endpoint, "http://tempuri.org/Subtract", &add, added) == SOAP_OK) return 1;
  printf("Refused %s\n", calculator.soap_fault_string());
}
