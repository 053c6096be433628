// A layer of Vulkan: appends what the driver tells of each compute pipeline (VK_KHR_pipeline_executable_properties) to the file that
// NEARFIELD_SURVEY names, a statistic a line: `statistic NAME VALUE`, separated by tabs. scripts/vendors builds and uses it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))

// One process has one instance and one device here.
static PFN_vkGetInstanceProcAddr next_instance_proc;
static PFN_vkGetDeviceProcAddr next_device_proc;
static VkInstance instance;

// The link of this layer in a chain of structs, whose next link it passes on.
#define LINK(Type, info, type)                                                                                  \
  Type *link = (Type *)(info)->pNext;                                                                           \
  while (link && !(link->sType == type && link->function == VK_LAYER_LINK_INFO)) link = (Type *)link->pNext;   \
  if (!link) return VK_ERROR_INITIALIZATION_FAILED

static VkResult create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *memory, VkInstance *out) {
  LINK(VkLayerInstanceCreateInfo, info, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  next_instance_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  VkResult result = ((PFN_vkCreateInstance)next_instance_proc(NULL, "vkCreateInstance"))(info, memory, out);
  if (result == VK_SUCCESS) instance = *out;
  return result;
}

// With the extension, which no program asks for by itself.
static VkResult create_device(VkPhysicalDevice adapter, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *memory, VkDevice *out) {
  LINK(VkLayerDeviceCreateInfo, info, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  PFN_vkGetInstanceProcAddr instance_proc = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  next_device_proc = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const char **names = calloc(info->enabledExtensionCount + 1, sizeof *names);
  if (!names) return VK_ERROR_OUT_OF_HOST_MEMORY;
  for (uint32_t i = 0; i < info->enabledExtensionCount; i++) names[i] = info->ppEnabledExtensionNames[i];
  names[info->enabledExtensionCount] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
      .pNext = (void *)info->pNext,
      .pipelineExecutableInfo = VK_TRUE,
  };
  VkDeviceCreateInfo wanted = *info;
  wanted.pNext = &feature;
  wanted.enabledExtensionCount++;
  wanted.ppEnabledExtensionNames = names;
  VkResult result = ((PFN_vkCreateDevice)instance_proc(instance, "vkCreateDevice"))(adapter, &wanted, memory, out);
  free(names);
  return result;
}

static void tell(FILE *file, VkDevice device, VkPipeline pipeline) {
  PFN_vkGetPipelineExecutablePropertiesKHR properties_of = (void *)next_device_proc(device, "vkGetPipelineExecutablePropertiesKHR");
  PFN_vkGetPipelineExecutableStatisticsKHR statistics_of = (void *)next_device_proc(device, "vkGetPipelineExecutableStatisticsKHR");
  VkPipelineInfoKHR of = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
  uint32_t count = 0;
  properties_of(device, &of, &count, NULL);
  VkPipelineExecutablePropertiesKHR *properties = calloc(count, sizeof *properties);
  for (uint32_t i = 0; properties && i < count; i++) properties[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
  properties_of(device, &of, &count, properties);
  for (uint32_t i = 0; properties && i < count; i++) {
    fprintf(file, "statistic\tsubgroup\t%" PRIu32 "\n", properties[i].subgroupSize);
    VkPipelineExecutableInfoKHR one = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = i};
    uint32_t length = 0;
    statistics_of(device, &one, &length, NULL);
    VkPipelineExecutableStatisticKHR *statistics = calloc(length, sizeof *statistics);
    for (uint32_t s = 0; statistics && s < length; s++) statistics[s].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    statistics_of(device, &one, &length, statistics);
    for (uint32_t s = 0; statistics && s < length; s++) {
      if (statistics[s].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR)
        fprintf(file, "statistic\t%s\t%g\n", statistics[s].name, statistics[s].value.f64);
      else
        fprintf(file, "statistic\t%s\t%" PRId64 "\n", statistics[s].name, statistics[s].value.i64);
    }
    free(statistics);
  }
  free(properties);
}

static VkResult create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count, const VkComputePipelineCreateInfo *infos,
                                 const VkAllocationCallbacks *memory, VkPipeline *out) {
  PFN_vkCreateComputePipelines next = (void *)next_device_proc(device, "vkCreateComputePipelines");
  VkComputePipelineCreateInfo *wanted = calloc(count, sizeof *wanted);
  if (!wanted) return VK_ERROR_OUT_OF_HOST_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    wanted[i] = infos[i];
    wanted[i].flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
  }
  VkResult result = next(device, cache, count, wanted, memory, out);
  free(wanted);
  const char *path = getenv("NEARFIELD_SURVEY");
  FILE *file = result == VK_SUCCESS && path ? fopen(path, "a") : NULL;
  if (!file) return result;
  for (uint32_t i = 0; i < count; i++) tell(file, device, out[i]);
  fclose(file);
  return result;
}

static PFN_vkVoidFunction device_proc(VkDevice device, const char *name) {
  if (!strcmp(name, "vkCreateComputePipelines")) return (void *)create_pipelines;
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (void *)device_proc;
  return next_device_proc(device, name);
}

static PFN_vkVoidFunction instance_proc(VkInstance of, const char *name) {
  if (!strcmp(name, "vkCreateInstance")) return (void *)create_instance;
  if (!strcmp(name, "vkCreateDevice")) return (void *)create_device;
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (void *)device_proc;
  if (!strcmp(name, "vkGetInstanceProcAddr")) return (void *)instance_proc;
  return next_instance_proc ? next_instance_proc(of, name) : NULL;
}

EXPORT VkResult vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface) {
  interface->pfnGetInstanceProcAddr = instance_proc;
  interface->pfnGetDeviceProcAddr = device_proc;
  interface->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
