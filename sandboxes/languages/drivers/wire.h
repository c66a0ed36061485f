/* Values as words; see wire.py. The submission is compiled by itself and does not see this file. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool wire_next(void); /* reads the line of the next call; false when there is none */
void *wire_memory(size_t bytes);
int64_t wire_read_int(void);
double wire_read_float(void);
bool wire_read_bool(void);
char *wire_read_string(void);
size_t wire_read_count(char letter);
bool wire_read_null(void); /* whether the next word is null; only then it is taken */

void wire_begin(void); /* begins a result */
void wire_write_int(int64_t value);
void wire_write_float(double value);
void wire_write_bool(bool value);
void wire_write_string(const char *value);
void wire_write_count(char letter, size_t count);
void wire_write_null(void);
void wire_send(void);
