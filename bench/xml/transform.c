/* Parse, transform and serialise with libxslt: what the project's own engine is compared with.
 * usage: transform STYLESHEET SOURCE ROUNDS; prints microseconds of CPU a round. */
#include <libxml/parser.h>
#include <libxslt/transform.h>
#include <libxslt/xsltutils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *read_all(const char *path, size_t *len) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *len = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*len + 1);
  if (bytes && fread(bytes, 1, *len, file) != *len) *len = 0;
  fclose(file);
  return bytes;
}

static double cpu(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  xsltStylesheetPtr sheet = xsltParseStylesheetFile((const xmlChar *)argv[1]);
  size_t len = 0;
  char *source = read_all(argv[2], &len);
  long rounds = atol(argv[3]), written = 0;
  if (!sheet || !source || rounds < 1) return 1;
  double start = cpu();
  for (long round = 0; round < rounds; round++) {
    xmlDocPtr document = xmlReadMemory(source, (int)len, NULL, NULL, XML_PARSE_NONET);
    xmlDocPtr result = xsltApplyStylesheet(sheet, document, NULL);
    xmlChar *bytes = NULL;
    int size = 0;
    if (!result || xsltSaveResultToString(&bytes, &size, result, sheet) < 0) return 1;
    written += size;
    xmlFree(bytes);
    xmlFreeDoc(result);
    xmlFreeDoc(document);
  }
  double each = (cpu() - start) / rounds;
  printf("%.2f %ld\n", each, written / rounds);
  return 0;
}
