struct list {
    int *items;
    int length;
    int room;
};

void list_init(struct list *list);
void list_free(struct list *list);
int list_insert(struct list *list, int at, int value);
int list_push(struct list *list, int value);
int list_remove(struct list *list, int at);
int list_find(const struct list *list, int value, int from);
void list_reverse(struct list *list);
int list_unique(struct list *list);
