// The types of libdcmi's C ABI that its queries fill in here. Functions are generated from cann/abi/dcmi.yaml.
#pragma once

enum {
  DCMI_OK = 0,
  DCMI_ERR_CODE_INVALID_PARAMETER = -8001,
  DCMI_ERR_CODE_INNER_ERR = -8005,
  DCMI_ERR_CODE_INVALID_DEVICE_ID = -8007,
  DCMI_ERR_CODE_NOT_SUPPORT = -8255,
};

typedef enum dcmi_unit_type { NPU_TYPE = 0, MCU_TYPE = 1, CPU_TYPE = 2, INVALID_TYPE = 0xFF } dcmi_unit_type;

enum {
  DCMI_TOPO_TYPE_SELF = 0,
  DCMI_TOPO_TYPE_HCCS = 3,
  DCMI_TOPO_TYPE_SIO = 6,
  DCMI_TOPO_TYPE_UB = 8,
};

enum {
  DCMI_UTILIZATION_RATE_AICORE = 2,
  DCMI_UTILIZATION_RATE_HBM = 6,
  DCMI_UTILIZATION_RATE_VECTORCORE = 12,
  DCMI_UTILIZATION_RATE_NPU = 13,
  DCMI_UTILIZATION_RATE_AICUBE = 14,
};

typedef struct dcmi_chip_info {
  unsigned char chip_type[32];
  unsigned char chip_name[32];
  unsigned char chip_ver[32];
  unsigned int aicore_cnt;
} dcmi_chip_info;

typedef struct dcmi_chip_info_v2 {
  unsigned char chip_type[32];
  unsigned char chip_name[32];
  unsigned char chip_ver[32];
  unsigned int aicore_cnt;
  unsigned char npu_name[32];
} dcmi_chip_info_v2;

typedef struct dcmi_pcie_info {
  unsigned int deviceid;
  unsigned int venderid;
  unsigned int subvenderid;
  unsigned int subdeviceid;
  unsigned int bdf_deviceid;
  unsigned int bdf_busid;
  unsigned int bdf_funcid;
} dcmi_pcie_info;

typedef struct dcmi_pcie_info_all {
  unsigned int venderid;
  unsigned int subvenderid;
  unsigned int deviceid;
  unsigned int subdeviceid;
  int domain;
  unsigned int bdf_busid;
  unsigned int bdf_deviceid;
  unsigned int bdf_funcid;
  unsigned char reserve[32];
} dcmi_pcie_info_all;

typedef struct dcmi_hbm_info {
  unsigned long long memory_size;  // MB
  unsigned int freq;
  unsigned long long memory_usage;  // MB
  int temp;
  unsigned int bandwith_util_rate;
} dcmi_hbm_info;
typedef struct dcmi_hbm_info dsmi_hbm_info_stru;

typedef struct dcmi_multi_utilization_info {
  unsigned int aic_util;
  unsigned int aiv_util;
  unsigned int aicore_util;
  unsigned int npu_util;
  unsigned int reserved[8];
} dcmi_multi_utilization_info;

typedef struct dcmi_proc_mem_info {
  int proc_id;
  unsigned long proc_mem_usage;  // bytes
} dcmi_proc_mem_info;

#ifdef __cplusplus
static_assert(sizeof(dcmi_chip_info) == 100 && sizeof(dcmi_chip_info_v2) == 132);
static_assert(sizeof(dcmi_pcie_info) == 28 && sizeof(dcmi_pcie_info_all) == 64);
static_assert(sizeof(dcmi_hbm_info) == 32 && sizeof(dcmi_multi_utilization_info) == 48);
static_assert(sizeof(dcmi_proc_mem_info) == 16);
#endif
