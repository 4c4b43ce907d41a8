// What the shared libraries offer.
#pragma once

/// What came of a sum in a library.
struct Answer {
  int capability = 0;  ///< of the device, 90 for 9.0; 0 where there is none
  bool fits = false;   ///< whether the library holds code that the device can run
  bool right = false;
  char message[300] = {};
};

__attribute__((visibility("default"))) Answer first_part();
__attribute__((visibility("default"))) Answer second_part();
