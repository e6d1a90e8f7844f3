/* A libcupti that plays: it serves the bytes of a file from a thread of its own, which holds no GIL.
   Environment: FAKE_CUPTI_VERSION, FAKE_CUPTI_STRIDES "10:208,5:40", FAKE_CUPTI_BYTES (a file),
   FAKE_CUPTI_FAIL "cuptiActivityEnable:35", FAKE_CUPTI_COPIES, FAKE_CUPTI_KEEP (never gives a buffer back),
   FAKE_CUPTI_NOW (times of the file become times of this recording), FAKE_CUPTI_JOURNAL (calls go there). */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void (*request_t)(uint8_t **, size_t *, size_t *);
typedef void (*complete_t)(void *, uint32_t, uint8_t *, size_t, size_t);
static request_t request;
static complete_t complete;
static size_t dropped;

static void note(const char *what, int kind) {
    const char *path = getenv("FAKE_CUPTI_JOURNAL");
    FILE *file = path ? fopen(path, "a") : 0;
    if (!file) return;
    fprintf(file, "%s %d\n", what, kind);
    fclose(file);
}
static int fail(const char *name) {
    const char *told = getenv("FAKE_CUPTI_FAIL");
    size_t n = strlen(name);
    return told && !strncmp(told, name, n) && told[n] == ':' ? atoi(told + n + 1) : 0;
}
int cuptiGetVersion(uint32_t *v) {
    const char *told = getenv("FAKE_CUPTI_VERSION");
    *v = told ? atoi(told) : 28;
    return fail("cuptiGetVersion");
}
static uint64_t began;
static int ended;
int cuptiGetTimestamp(uint64_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = now.tv_sec * 1000000000ull + now.tv_nsec;
    if (!ended) began = *t; /* the last one that is asked for before the recording ends */
    return fail("cuptiGetTimestamp");
}
int cuptiGetResultString(int code, const char **text) {
    *text = code == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : code == 39 ?
        "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN";
    return 0;
}
int cuptiSubscribe(void **handle, void *callback, void *data) { *handle = (void *)1; return fail("cuptiSubscribe"); }
int cuptiUnsubscribe(void *handle) { note("unsubscribe", 0); return 0; }
int cuptiSetThreadIdType(int type) { return fail("cuptiSetThreadIdType"); }
int cuptiActivityRegisterCallbacks(request_t r, complete_t c) { request = r; complete = c; return 0; }
int cuptiActivityEnable(int kind) {
    ended = 0;
    note("enable", kind);
    return kind == 10 || kind == 38 ? fail("cuptiActivityEnable") : 0;
}
int cuptiActivityDisable(int kind) { ended = 1; note("disable", kind); return 0; }
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n) { *n = dropped; dropped = 0; return 0; }
int cuptiGetCallbackName(int domain, uint32_t id, const char **name) {
    *name = domain == 2 && id == 211 ? "cudaLaunchKernel_v7000" : domain == 1 && id == 307 ? "cuLaunchKernel" : 0;
    return *name ? 0 : 2;
}
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
    uint8_t *at = *record ? *record : buffer;
    const char *told = getenv("FAKE_CUPTI_STRIDES");
    size_t step = 0;
    while (told && *told) {
        unsigned kind, size;
        if (sscanf(told, "%u:%u", &kind, &size) == 2 && kind == *(uint32_t *)at) step = size;
        told = strchr(told, ',');
        told = told ? told + 1 : 0;
    }
    if (!step) return 21;
    *record = *record ? at + step : buffer;
    return 0;
}
static void *serve(void *nothing) {
    FILE *file = fopen(getenv("FAKE_CUPTI_BYTES"), "rb");
    static uint8_t bytes[1 << 16];
    size_t n = fread(bytes, 1, sizeof bytes, file);
    const char *copies = getenv("FAKE_CUPTI_COPIES");
    fclose(file);
    const uint64_t zero = 1700000000000000000ull;
    for (uint64_t *word = (uint64_t *)bytes; getenv("FAKE_CUPTI_NOW") && (uint8_t *)word < bytes + n; word++)
        if (*word >= zero && *word < zero + 1000000000) *word += began - zero;
    for (int i = copies ? atoi(copies) : 1; i > 0; i--) {
        uint8_t *buffer = 0;
        size_t size = 0, most = 0;
        request(&buffer, &size, &most);
        if (!buffer || size < n) { dropped += 10; continue; }
        memcpy(buffer, bytes, n);
        if (!getenv("FAKE_CUPTI_KEEP")) complete(0, 0, buffer, size, n);
    }
    return 0;
}
int cuptiActivityFlushAll(uint32_t flag) {
    pthread_t thread;
    int code = fail("cuptiActivityFlushAll");
    note("flush", flag);
    if (code || !getenv("FAKE_CUPTI_BYTES")) return code;
    pthread_create(&thread, 0, serve, 0);
    pthread_join(thread, 0);
    return 0;
}

/* Many threads ask for buffers, write into them and give them back, all at once. */
struct work { request_t request; complete_t complete; int turns; uint64_t number; };
static void *ask(void *given) {
    struct work *work = given;
    for (int i = 0; i < work->turns; i++) {
        uint8_t *buffer = 0;
        size_t size = 0, most = 0;
        uint64_t mark = 1 + work->number * 1000 + i;
        work->request(&buffer, &size, &most);
        ((volatile uint64_t *)buffer)[0] = mark;
        sched_yield();
        ((volatile uint64_t *)buffer)[1] = mark;
        work->complete(0, 0, buffer, size, 16);
    }
    return 0;
}
void hammer(request_t request_, complete_t complete_, int threads, int turns) {
    pthread_t made[64];
    struct work work[64];
    for (int i = 0; i < threads; i++) {
        work[i] = (struct work){request_, complete_, turns, i};
        pthread_create(&made[i], 0, ask, &work[i]);
    }
    for (int i = 0; i < threads; i++) pthread_join(made[i], 0);
}
