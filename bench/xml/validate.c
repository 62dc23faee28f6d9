/* Parse and validate with libxml2's streaming reader: what the project's own engine is compared with.
 * usage: validate SCHEMA SOURCE ROUNDS; prints microseconds of CPU a round. */
#include <libxml/xmlreader.h>
#include <libxml/xmlschemas.h>
#include <stdio.h>
#include <stdlib.h>
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
  xmlSchemaParserCtxtPtr source_of = xmlSchemaNewParserCtxt(argv[1]);
  xmlSchemaPtr schema = xmlSchemaParse(source_of);
  size_t len = 0;
  char *source = read_all(argv[2], &len);
  long rounds = atol(argv[3]);
  if (!schema || !source || rounds < 1) return 1;
  /* One reader and one validation for all rounds, reset for each: the cheapest way there is. */
  xmlTextReaderPtr reader = xmlReaderForMemory(source, (int)len, NULL, NULL, XML_PARSE_NONET);
  xmlSchemaValidCtxtPtr valid = xmlSchemaNewValidCtxt(schema);
  double start = cpu();
  for (long round = 0; round < rounds; round++) {
    if (round && xmlReaderNewMemory(reader, source, (int)len, NULL, NULL, XML_PARSE_NONET)) return 1;
    if (xmlTextReaderSchemaValidateCtxt(reader, valid, 0)) return 1;
    int more;
    while ((more = xmlTextReaderRead(reader)) == 1) {
    }
    if (more || xmlTextReaderIsValid(reader) != 1) return 1;
  }
  printf("%.3f\n", (cpu() - start) / rounds);
  return 0;
}
