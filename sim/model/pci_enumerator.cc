// SPDX-License-Identifier: Apache-2.0
#include "sim/model/pci_enumerator.h"

#include <cinttypes>
#include <cstdio>

#include "sim/gen/hvia_layout.h"

namespace hvia {
namespace {

struct Step_ {
  HostCommand::Kind kind;
  size_t offset;
  const char* what;
};

constexpr uint64_t kToken = 0x656e756d65726174ull;

// Steps in order. Check compares each read with its expected value.
constexpr Step_ kScript[] = {
    {HostCommand::kConfigRead, kPciConfigIDOffset, "read the identification"},
    {HostCommand::kConfigRead, kPciConfigClassOffset, "read the class"},
    {HostCommand::kConfigRead, kPciConfigCommandOffset, "see that RST# has switched the card off"},
    {HostCommand::kConfigWrite, kPciConfigBar0Offset, "size BAR 0"},
    {HostCommand::kConfigRead, kPciConfigBar0Offset, "read the size of BAR 0"},
    {HostCommand::kConfigWrite, kPciConfigBar1Offset, "size BAR 1"},
    {HostCommand::kConfigRead, kPciConfigBar1Offset, "read the size of BAR 1"},
    {HostCommand::kConfigWrite, kPciConfigBar0Offset, "place BAR 0"},
    {HostCommand::kConfigWrite, kPciConfigBar1Offset, "place BAR 1"},
    {HostCommand::kConfigWrite, kPciConfigInterruptOffset, "set the interrupt line"},
    {HostCommand::kConfigWrite, kPciConfigHeaderOffset, "set the latency timer"},
    {HostCommand::kConfigWrite, kPciConfigCommandOffset, "enable memory and bus mastering"},
    {HostCommand::kConfigRead, kPciConfigBar0Offset, "read BAR 0 back"},
    {HostCommand::kConfigRead, kPciConfigCommandOffset, "read the command register back"},
};

uint32_t CommandWord(const PciEnumerator::Plan& plan) {
  return kPciConfigCommandMemoryEnableMask | kPciConfigCommandMasterEnableMask |
         (plan.parity_response ? kPciConfigCommandParityResponseMask | kPciConfigCommandSerrEnableMask : 0);
}

}  // namespace

PciEnumerator::Plan PciEnumerator::DefaultPlan() {
  Plan plan;
  plan.bar0 = kPciBar0Base;
  plan.bar1 = kPciBar1Base;
  return plan;
}

PciEnumerator::PciEnumerator(HostBridge* bridge, const Plan& plan) : bridge_(bridge), plan_(plan) {
  static_assert(sizeof kScript / sizeof kScript[0] == kSteps, "one entry per step");
}

void PciEnumerator::Issue() {
  const Step_& s = kScript[state_];
  HostCommand c;
  c.kind = s.kind;
  c.address = static_cast<uint32_t>(s.offset);
  c.token = kToken;
  switch (state_) {
    case 3:
    case 5: c.data[0] = 0xffffffffu; break;
    case 7: c.data[0] = plan_.bar0; break;
    case 8: c.data[0] = plan_.bar1; break;
    case 9:
      c.data[0] = plan_.interrupt_line;
      c.byte_enables[0] = 1;
      break;
    case 10:
      c.data[0] = uint32_t{plan_.latency_timer} << kPciConfigHeaderLatencyTimerLsb;
      c.byte_enables[0] = 2;
      break;
    case 11:
      c.data[0] = CommandWord(plan_);
      c.byte_enables[0] = 3;
      break;
    default: break;
  }
  bridge_->Post(c);
  waiting_ = true;
}

void PciEnumerator::Check(const HostResult& result) {
  const Step_& s = kScript[state_];
  uint32_t want = 0, mask = 0;
  switch (state_) {
    case 0: want = kPciVendorID | kPciDeviceID << kPciConfigIDDeviceLsb, mask = 0xffffffffu; break;
    case 1: want = kPciRevisionID | kPciClassCode << kPciConfigClassCodeLsb, mask = 0xffffffffu; break;
    case 2: mask = kPciConfigCommandMemoryEnableMask | kPciConfigCommandMasterEnableMask; break;
    case 4: want = ~((1u << kPciBar0Log2) - 1), mask = 0xffffffffu; break;
    case 6: want = ~((1u << kPciBar1Log2) - 1), mask = 0xffffffffu; break;
    case 12: want = plan_.bar0, mask = 0xffffffffu; break;
    case 13: want = CommandWord(plan_), mask = 0xffffu; break;
    default: break;
  }
  char text[200];
  if (result.status != HostResult::kOk) {
    std::snprintf(text, sizeof text, "PCI enumeration: %s (configuration offset %#zx): %s: is the card out of reset?", s.what, s.offset,
                  HostResultStatusName(result.status));
    error_ = text;
  } else if ((result.data & mask) != want) {
    std::snprintf(text, sizeof text,
                  "PCI enumeration: %s (configuration offset %#zx): got %08" PRIx32 ", want %08" PRIx32
                  " under mask %08" PRIx32 ": was the card built from the same layout?",
                  s.what, s.offset, result.data, want, mask);
    error_ = text;
  }
}

void PciEnumerator::Step() {
  if (done()) return;
  if (!waiting_) {
    Issue();
    return;
  }
  HostResult result;
  if (!bridge_->PopResult(&result)) return;
  waiting_ = false;
  Check(result);
  if (error_.empty()) state_++;
}

}  // namespace hvia
