// SPDX-License-Identifier: Apache-2.0
// The pins of the card's second PCI bus, mb_*, on a Verilated top. The card is the host of this
// bus, so its outputs take the bridge's side of a PciBus.
#pragma once
#include <cstdint>
#include <type_traits>

#include "sim/model/pci_bus.h"

namespace hvia {

// MacBusDrive reads the card's outputs.
template <class Top>
PciDrive MacBusDrive(const Top& top) {
  PciDrive d;
  d.ad = top.mb_ad_o;
  d.cbe_n = top.mb_cbe_n_o;
  d.oe = static_cast<uint16_t>((top.mb_frame_n_oe ? kPciFrame : 0) | (top.mb_irdy_n_oe ? kPciIrdy : 0) | (top.mb_trdy_n_oe ? kPciTrdy : 0) |
                              (top.mb_devsel_n_oe ? kPciDevsel : 0) | (top.mb_stop_n_oe ? kPciStop : 0) | (top.mb_par_oe ? kPciPar : 0) |
                              (top.mb_ad_oe ? kPciAd : 0) | (top.mb_cbe_n_oe ? kPciCbe : 0) | (top.mb_req64_n_oe ? kPciReq64 : 0) |
                              (top.mb_ack64_n_oe ? kPciAck64 : 0) | (top.mb_par64_oe ? kPciPar64 : 0));
  d.high = static_cast<uint16_t>((top.mb_frame_n_o ? kPciFrame : 0) | (top.mb_irdy_n_o ? kPciIrdy : 0) | (top.mb_trdy_n_o ? kPciTrdy : 0) |
                                (top.mb_devsel_n_o ? kPciDevsel : 0) | (top.mb_stop_n_o ? kPciStop : 0) | (top.mb_par_o ? kPciPar : 0) |
                                (top.mb_req64_n_o ? kPciReq64 : 0) | (top.mb_ack64_n_o ? kPciAck64 : 0) | (top.mb_par64_o ? kPciPar64 : 0));
  return d;
}

// MacBusSample sets the pins that the card samples at its next clock edge.
template <class Top>
void MacBusSample(const PciPins& p, Top* top) {
  top->mb_ad_i = static_cast<std::remove_reference_t<decltype(top->mb_ad_i)>>(p.ad);
  // Four byte enables on a 32-bit bus.
  top->mb_cbe_n_i = static_cast<uint8_t>(p.cbe_n & (sizeof top->mb_ad_i == 8 ? 255 : 15));
  top->mb_par_i = p.par();
  top->mb_frame_n_i = p.frame_n();
  top->mb_irdy_n_i = p.irdy_n();
  top->mb_trdy_n_i = p.trdy_n();
  top->mb_devsel_n_i = p.devsel_n();
  top->mb_stop_n_i = p.stop_n();
  top->mb_par64_i = p.par64();
  top->mb_req64_n_i = p.req64_n();
  top->mb_ack64_n_i = p.ack64_n();
  top->mb_req_n_i = p.req_n;
}

}  // namespace hvia
