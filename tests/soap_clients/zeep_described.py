"""zeep from the URL of a description alone: `zeep_described.py URL`. Prints what it got; the test compares.

With a second argument it prints the operations instead."""

import sys

import zeep

client = zeep.Client(sys.argv[1])
if len(sys.argv) > 2:
    print(*client.service._binding._operations, sep="\n")
else:
    print(client.service.Get(5))
