#define HEAP_ROOM 16

struct heap {
    int items[HEAP_ROOM];
    int length;
};

int heap_push(struct heap *heap, int value);
int heap_pop(struct heap *heap, int *value);
int heap_replace(struct heap *heap, int value);
void heap_make(struct heap *heap, const int *values, int count);
int heap_is_valid(const struct heap *heap);
