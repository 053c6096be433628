// Compiles and validates a folder of HLSL by DXC, as wgpu does: dxc LIBRARY MODEL FOLDER, whose files are ENTRY-STEM.hlsl. Where DXC refuses
// one, ENTRY-STEM-spelled.hlsl has to pass, which a device would run then. Prints what DXC refuses, with its words. scripts/vendors builds it.
#include "dxcapi.h"
#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

static IDxcLibrary *texts;
static IDxcCompiler *compiler;

// What DXC says against a file; empty if nothing.
static std::string refusal(const std::filesystem::path &file, const std::string &model) {
  std::stringstream read;
  read << std::ifstream(file).rdbuf();
  std::string text = read.str(), name = file.stem().string(), entry = name.substr(0, name.find('-'));
  std::wstring profile = L"cs_" + std::wstring(model.begin(), model.end()), point(entry.begin(), entry.end());
  std::vector<const wchar_t *> flags = {L"-HV", L"2018", L"-no-warnings"};
  if (model >= "6_2") flags.push_back(L"-enable-16bit-types");
  IDxcBlobEncoding *source = nullptr, *said = nullptr;
  IDxcOperationResult *result = nullptr;
  texts->CreateBlobWithEncodingOnHeapCopy(text.data(), text.size(), 65001, &source);
  HRESULT status = compiler->Compile(source, L"kernel.hlsl", point.c_str(), profile.c_str(), flags.data(), flags.size(), nullptr, 0, nullptr, &result);
  if (!status) result->GetStatus(&status);
  std::string why;
  if (status) {
    if (result) result->GetErrorBuffer(&said);
    why = said ? std::string((char *)said->GetBufferPointer(), said->GetBufferSize()) : "no reason";
    std::replace(why.begin(), why.end(), '\n', ' ');
  }
  if (said) said->Release();
  if (result) result->Release();
  source->Release();
  return why;
}

int main(int count, char **words) {
  if (count != 4) return 2;
  void *library = dlopen(words[1], RTLD_NOW);
  auto create = library ? (DxcCreateInstanceProc)dlsym(library, "DxcCreateInstance") : nullptr;
  if (!create || create(CLSID_DxcLibrary, __uuidof(IDxcLibrary), (void **)&texts) || create(CLSID_DxcCompiler, __uuidof(IDxcCompiler), (void **)&compiler)) {
    fprintf(stderr, "dxc: %s cannot be used\n", words[1]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (auto &file : std::filesystem::directory_iterator(words[3]))
    if (file.path().stem().string().find("-spelled") == std::string::npos) files.push_back(file.path());
  std::sort(files.begin(), files.end());
  size_t refused = 0, spelled = 0;
  for (auto &file : files) {
    std::string why = refusal(file, words[2]);
    if (why.empty()) continue;
    std::filesystem::path other = file.parent_path() / (file.stem().string() + "-spelled.hlsl");
    if (std::filesystem::exists(other)) {
      why = refusal(other, words[2]);
      spelled++;
    }
    if (why.empty()) continue;
    refused++;
    printf("refused at %s: %s: %s\n", words[2], file.stem().c_str(), why.substr(0, 400).c_str());
  }
  printf("DXC at shader model %s: %zu forms, %zu refused, %zu with products of bytes in plain arithmetic\n", words[2], files.size(), refused, spelled);
  return files.empty() || refused > 0;
}
