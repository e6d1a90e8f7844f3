/* CUDA's driver as far as notebook_prof asks it: one H100, and nothing to wait for. */
#include <stddef.h>
#include <string.h>

static int initialised;

int cuInit(unsigned flags) { initialised = 1; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR_NOT_INITIALIZED"; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return initialised ? 0 : 3; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Pretended H100", size); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)80 << 30; return 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0, 16); memset(uuid, 0xaa, 4); return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *active = initialised; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &initialised; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxPushCurrent_v2(void *context) { return 0; }
int cuCtxPopCurrent_v2(void **context) { return 0; }
int cuCtxSynchronize(void) { return 0; }

int cuDeviceGetAttribute(int *value, int code, int device) {
    switch (code) {
    case 16: *value = 132; return 0;      /* multiprocessors */
    case 39: *value = 2048; return 0;     /* threads of one */
    case 75: *value = 9; return 0;        /* compute capability */
    case 76: *value = 0; return 0;
    case 81: *value = 233472; return 0;   /* shared memory */
    case 82: *value = 65536; return 0;    /* registers */
    case 106: *value = 32; return 0;      /* blocks */
    case 111: *value = 1024; return 0;    /* shared memory that is reserved */
    }
    return 1;
}
