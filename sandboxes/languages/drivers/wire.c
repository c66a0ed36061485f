#define _GNU_SOURCE
#include "wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *calls, *results;
static char *line, *position;
static size_t line_size;

bool wire_next(void) {
    if (!calls) calls = fdopen(3, "r");
    if (!results) results = fdopen(4, "w");
    if (!calls || !results || getline(&line, &line_size, calls) < 0) return false;
    line[strcspn(line, "\"") == 0 ? strcspn(line + 1, "\"") + 1 : 0] = 0; /* the quote at the end */
    position = line + 1;
    return true;
}

void *wire_memory(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) abort();
    return memory;
}

static char *next_word(void) {
    char *word = position;
    position += strcspn(position, " ");
    if (*position) *position++ = 0;
    return word;
}

int64_t wire_read_int(void) { return strtoll(next_word() + 1, NULL, 10); }

double wire_read_float(void) { return strtod(next_word() + 1, NULL); }

bool wire_read_bool(void) { return *next_word() == 't'; }

char *wire_read_string(void) {
    char *word = next_word() + 1;
    size_t length = strlen(word) / 2;
    char *text = wire_memory(length + 1);
    for (size_t i = 0; i < length; i++) {
        char pair[3] = {word[2 * i], word[2 * i + 1], 0};
        text[i] = (char)strtol(pair, NULL, 16);
    }
    return text;
}

size_t wire_read_count(char letter) {
    char *word = next_word();
    return *word == letter ? strtoull(word + 1, NULL, 10) : 0;
}

bool wire_read_null(void) {
    if (*position != 'n') return false;
    next_word();
    return true;
}

void wire_begin(void) { fputs("\"=", results); }

static bool is_first = true;

static void begin_word(void) {
    if (!is_first) fputc(' ', results);
    is_first = false;
}

void wire_write_int(int64_t value) {
    begin_word();
    fprintf(results, "i%" PRId64, value);
}

void wire_write_float(double value) {
    begin_word();
    fprintf(results, "f%.17g", value);
}

void wire_write_bool(bool value) {
    begin_word();
    fputc(value ? 't' : 'F', results);
}

void wire_write_string(const char *value) {
    if (!value) {
        wire_write_null();
        return;
    }
    begin_word();
    fputc('s', results);
    for (; *value; value++) fprintf(results, "%02x", (unsigned char)*value);
}

void wire_write_count(char letter, size_t count) {
    begin_word();
    fprintf(results, "%c%zu", letter, count);
}

void wire_write_null(void) {
    begin_word();
    fputc('n', results);
}

void wire_send(void) {
    fputs("\"\n", results);
    fflush(results);
    is_first = true;
}
