"""zeep from the URL of a description alone: `zeep_described.py URL`. Prints what it got; the test compares."""

import sys

import zeep

print(zeep.Client(sys.argv[1]).service.Get(5))
