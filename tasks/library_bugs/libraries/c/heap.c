#include "heap.h"

/* A queue by priority: the smallest number comes out first. It holds at most HEAP_ROOM numbers. */

static void swap(struct heap *heap, int i, int j) {
    int kept = heap->items[i];
    heap->items[i] = heap->items[j];
    heap->items[j] = kept;
}

static void rise(struct heap *heap, int at) {
    while (at > 0) {
        int above = (at - 1) / 2;
        if (heap->items[above] <= heap->items[at]) {
            break;
        }
        swap(heap, at, above);
        at = above;
    }
}

static void sink(struct heap *heap, int at) {
    for (;;) {
        int left = 2 * at + 1;
        int right = 2 * at + 2;
        int least = at;
        if (left < heap->length && heap->items[left] < heap->items[least]) {
            least = left;
        }
        if (right < heap->length && heap->items[right] < heap->items[least]) {
            least = right;
        }
        if (least == at) {
            return;
        }
        swap(heap, at, least);
        at = least;
    }
}

int heap_push(struct heap *heap, int value) {
    if (heap->length >= HEAP_ROOM) {
        return 0;
    }
    heap->items[heap->length] = value;
    heap->length++;
    rise(heap, heap->length - 1);
    return 1;
}

int heap_pop(struct heap *heap, int *value) {
    if (heap->length == 0) {
        return 0;
    }
    *value = heap->items[0];
    heap->length--;
    heap->items[0] = heap->items[heap->length];
    sink(heap, 0);
    return 1;
}

/* Put a value in the place of the smallest, which is returned; cheaper than pop and push. */
int heap_replace(struct heap *heap, int value) {
    int smallest = heap->items[0];
    heap->items[0] = value;
    sink(heap, 0);
    return smallest;
}

/* Make a heap of numbers in any order. */
void heap_make(struct heap *heap, const int *values, int count) {
    heap->length = count < HEAP_ROOM ? count : HEAP_ROOM;
    for (int i = 0; i < heap->length; i++) {
        heap->items[i] = values[i];
    }
    for (int i = heap->length / 2 - 1; i >= 0; i--) {
        sink(heap, i);
    }
}

int heap_is_valid(const struct heap *heap) {
    for (int i = 1; i < heap->length; i++) {
        if (heap->items[i] < heap->items[(i - 1) / 2]) {
            return 0;
        }
    }
    return 1;
}
