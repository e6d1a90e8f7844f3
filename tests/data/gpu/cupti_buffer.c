/* Writes a buffer of real CUPTI activity records to standard output; README.md says how it is built.
   KERNEL, MEMCPY, MEMSET, MEMORY, OVERHEAD and SYNC name the structures of the release. Pointers to names are
   numbers, which the tests look up. */
#include <stdio.h>
#include <string.h>
#include <cuda.h>
#include <cupti_activity.h>

#define T0 1700000000000000000ull
#define US 1000ull
#define RECORD(type, name) type name; memset(&name, 0, sizeof(name))
#define WRITE(name) fwrite(&name, sizeof(name), 1, stdout)

static void call(int kind, int cbid, unsigned long long at, unsigned long long length, int thread, int id) {
    RECORD(CUpti_ActivityAPI, r);
    r.kind = kind;
    r.cbid = cbid;
    r.start = T0 + at * US;
    r.end = r.start + length * US;
    r.processId = 99;
    r.threadId = thread;
    r.correlationId = id;
    WRITE(r);
}

static void kernel(unsigned long long at, unsigned long long length, int stream, int id, int name) {
    RECORD(KERNEL, r);
    r.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    r.registersPerThread = 40;
    r.start = T0 + at * US;
    r.end = r.start + length * US;
    r.deviceId = 1;
    r.contextId = 3;
    r.streamId = stream;
    r.gridX = 80; r.gridY = 2; r.gridZ = 1;
    r.blockX = 256; r.blockY = 1; r.blockZ = 1;
    r.staticSharedMemory = 1024;
    r.dynamicSharedMemory = 512;
    r.correlationId = id;
    r.name = (const char *)(size_t)name;
    WRITE(r);
}

static void copy(unsigned long long at, unsigned long long length, int kind, int from, int to, long bytes, int id) {
    RECORD(MEMCPY, r);
    r.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    r.copyKind = kind; r.srcKind = from; r.dstKind = to;
    r.bytes = bytes;
    r.start = T0 + at * US;
    r.end = r.start + length * US;
    r.deviceId = 1; r.contextId = 3; r.streamId = 7;
    r.correlationId = id;
    WRITE(r);
}

static void memory(unsigned long long at, int operation, unsigned long long address, long bytes) {
    RECORD(MEMORY, r);
    r.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
    r.memoryOperationType = operation;
    r.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    r.address = address;
    r.bytes = bytes;
    r.timestamp = T0 + at * US;
    r.processId = 99; r.deviceId = 1; r.contextId = 3;
    WRITE(r);
}

static void marker(unsigned long long at, int flags, int id, int name) {
    RECORD(CUpti_ActivityMarker2, r);
    r.kind = CUPTI_ACTIVITY_KIND_MARKER;
    r.flags = flags;
    r.timestamp = T0 + at * US;
    r.id = id;
    r.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
    r.objectId.pt.processId = 99; r.objectId.pt.threadId = 11;
    r.name = (const char *)(size_t)name;
    WRITE(r);
}

int main(void) {
    memory(1, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, 0x7f0000000000ull, 1 << 20);
    marker(2, CUPTI_ACTIVITY_FLAG_MARKER_START, 1, 3);
    marker(3, CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS, 2, 4);
    for (int i = 0; i < 20; i++) {
        call(CUPTI_ACTIVITY_KIND_RUNTIME, 211, 10 + 20 * i, 5, 11, 100 + i);   /* cudaLaunchKernel */
        call(CUPTI_ACTIVITY_KIND_DRIVER, 307, 11 + 20 * i, 3, 11, 100 + i);    /* cuLaunchKernel inside */
        kernel(20 + 20 * i, 8, 7, 100 + i, 1 + i % 2);
    }
    {
        RECORD(CUpti_ActivityExternalCorrelation, r);
        r.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
        r.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
        r.externalId = 77;
        r.correlationId = 100;
        WRITE(r);
    }
    call(CUPTI_ACTIVITY_KIND_DRIVER, 307, 450, 4, 12, 200);                    /* cuLaunchKernel alone */
    kernel(460, 30, 13, 200, 2);
    copy(500, 40, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE,
         CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, 1 << 20, 201);
    copy(550, 20, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
         CUPTI_ACTIVITY_MEMORY_KIND_PINNED, 1 << 19, 202);
    {
        RECORD(CUpti_ActivityMemcpyPtoP4, r);
        r.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
        r.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
        r.srcKind = r.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
        r.bytes = 4096;
        r.start = T0 + 580 * US; r.end = T0 + 585 * US;
        r.deviceId = 1; r.contextId = 3; r.streamId = 7;
        r.srcDeviceId = 1; r.dstDeviceId = 0;
        r.correlationId = 203;
        WRITE(r);
    }
    {
        RECORD(MEMSET, r);
        r.kind = CUPTI_ACTIVITY_KIND_MEMSET;
        r.bytes = 2048;
        r.start = T0 + 590 * US; r.end = T0 + 592 * US;
        r.deviceId = 1; r.contextId = 3; r.streamId = 7;
        r.correlationId = 204;
        r.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
        WRITE(r);
    }
    {
        RECORD(CUpti_ActivityStream, r);                                       /* a kind that is not read */
        r.kind = CUPTI_ACTIVITY_KIND_STREAM;
        r.contextId = 3; r.streamId = 13;
        WRITE(r);
    }
    {
        RECORD(OVERHEAD, r);
        r.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
        r.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
        r.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
        r.objectId.pt.processId = 99; r.objectId.pt.threadId = 11;
        r.start = T0 + 600 * US; r.end = T0 + 610 * US;
        WRITE(r);
    }
    {
        RECORD(SYNC, r);
        r.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
        r.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
        r.start = T0 + 620 * US; r.end = T0 + 640 * US;
        r.correlationId = 205;
        r.contextId = 3; r.streamId = 7;
        WRITE(r);
    }
    marker(650, CUPTI_ACTIVITY_FLAG_MARKER_END, 1, 0);
    memory(660, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, 0x7f0000000000ull, 1 << 20);
    {
        RECORD(KERNEL, r);                                                     /* CUPTI could not tell when */
        r.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
        r.deviceId = 1; r.streamId = 7; r.correlationId = 206;
        r.name = (const char *)1;
        WRITE(r);
    }
    return 0;
}
