int count_words(const char *text);
void trim(char *text);
int starts_with(const char *text, const char *start);
int ends_with(const char *text, const char *end);
int parse_number(const char *text, int *used);
void caesar(char *text, int places);
int is_palindrome(const char *text);
