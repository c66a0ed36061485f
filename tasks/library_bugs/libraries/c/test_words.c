#include "check.h"
#include "words.h"

static char text[64];
static int used;

static const char *trimmed(const char *from) {
    strcpy(text, from);
    trim(text);
    return text;
}

static const char *shifted(const char *from, int places) {
    strcpy(text, from);
    caesar(text, places);
    return text;
}

TEST(counts_words) {
    CHECK(count_words("one two three"), 3);
}
TEST(counts_words_between_many_spaces) {
    CHECK(count_words("  one \t two\n"), 2);
}
TEST(counts_no_words) {
    CHECK(count_words("   "), 0);
}
TEST(trims_both_ends) {
    CHECK_TEXT(trimmed("  a b\t\n"), "a b");
}
TEST(trims_nothing) {
    CHECK_TEXT(trimmed("ab"), "ab");
}
TEST(trims_all) {
    CHECK_TEXT(trimmed(" \t "), "");
}
TEST(knows_how_a_text_starts) {
    CHECK(starts_with("under", "un"), 1);
    CHECK(starts_with("under", "on"), 0);
    CHECK(starts_with("under", ""), 1);
}
TEST(a_text_does_not_start_with_a_longer_one) {
    CHECK(starts_with("un", "under"), 0);
}
TEST(knows_how_a_text_ends) {
    CHECK(ends_with("under", "er"), 1);
    CHECK(ends_with("under", "under"), 1);
    CHECK(ends_with("under", "en"), 0);
}
TEST(a_text_does_not_end_with_a_longer_one) {
    CHECK(ends_with("er", "under"), 0);
}
TEST(reads_a_number) {
    CHECK(parse_number("409x", &used), 409);
    CHECK(used, 3);
}
TEST(reads_signs) {
    CHECK(parse_number("-12", &used), -12);
    CHECK(used, 3);
    CHECK(parse_number("+7", &used), 7);
}
TEST(reads_no_number) {
    CHECK(parse_number("-x", &used), 0);
    CHECK(used, 0);
}
TEST(shifts_letters) {
    CHECK_TEXT(shifted("abc xyz", 3), "def abc");
}
TEST(shifts_capitals) {
    CHECK_TEXT(shifted("AbZ!", 1), "BcA!");
}
TEST(shifts_back) {
    CHECK_TEXT(shifted("acE", -2), "yaC");
}
TEST(knows_palindromes) {
    CHECK(is_palindrome("never odd or even"), 1);
    CHECK(is_palindrome("abca"), 0);
    CHECK(is_palindrome("a ab"), 0);
}
