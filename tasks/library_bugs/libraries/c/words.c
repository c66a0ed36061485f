#include "words.h"
#include <string.h>

/* Texts of ASCII letters; all results are written into memory of the caller. */

static int is_space(char letter) {
    return letter == ' ' || letter == '\t' || letter == '\n';
}

int count_words(const char *text) {
    int words = 0;
    int inside = 0;
    for (; *text != '\0'; text++) {
        if (is_space(*text)) {
            inside = 0;
        } else if (!inside) {
            inside = 1;
            words++;
        }
    }
    return words;
}

void trim(char *text) {
    int length = strlen(text);
    int from = 0;
    while (from < length && is_space(text[from])) {
        from++;
    }
    while (length > from && is_space(text[length - 1])) {
        length--;
    }
    memmove(text, text + from, length - from);
    text[length - from] = '\0';
}

int starts_with(const char *text, const char *start) {
    while (*start != '\0') {
        if (*text != *start) {
            return 0;
        }
        text++;
        start++;
    }
    return 1;
}

int ends_with(const char *text, const char *end) {
    int text_length = strlen(text);
    int end_length = strlen(end);
    if (end_length > text_length) {
        return 0;
    }
    return strcmp(text + text_length - end_length, end) == 0;
}

/* A whole number at the start of a text; *used is how many letters it has, 0 if there is none. */
int parse_number(const char *text, int *used) {
    int at = 0;
    int sign = 1;
    if (text[at] == '-' || text[at] == '+') {
        sign = text[at] == '-' ? -1 : 1;
        at++;
    }
    int first = at;
    int value = 0;
    while (text[at] >= '0' && text[at] <= '9') {
        value = value * 10 + (text[at] - '0');
        at++;
    }
    if (at == first) {
        *used = 0;
        return 0;
    }
    *used = at;
    return sign * value;
}

/* Shift letters by some places in the alphabet, around its end. */
void caesar(char *text, int places) {
    for (int i = 0; text[i] != '\0'; i++) {
        if (text[i] >= 'a' && text[i] <= 'z') {
            text[i] = 'a' + (text[i] - 'a' + places + 26) % 26;
        } else if (text[i] >= 'A' && text[i] <= 'Z') {
            text[i] = 'A' + (text[i] - 'A' + places + 26) % 26;
        }
    }
}

int is_palindrome(const char *text) {
    int i = 0;
    int j = (int)strlen(text) - 1;
    while (i < j) {
        if (is_space(text[i])) {
            i++;
            continue;
        }
        if (is_space(text[j])) {
            j--;
            continue;
        }
        if (text[i] != text[j]) {
            return 0;
        }
        i++;
        j--;
    }
    return 1;
}
