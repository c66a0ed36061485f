#include <stdint.h>

int count_ones(uint32_t word);
int highest_bit(uint32_t word);
int lowest_bit(uint32_t word);
uint32_t rotate_left(uint32_t word, int places);
uint32_t reverse_bits(uint32_t word);
uint32_t field(uint32_t word, int from, int count);
uint32_t set_field(uint32_t word, int from, int count, uint32_t value);
int is_power_of_two(uint32_t word);
uint32_t round_up(uint32_t word);
