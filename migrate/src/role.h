// What a string is for, from its place: a value that may name a device, the key of a dictionary, prose, a path ...
// The string rewriter decides by role and content together.
#pragma once
#include <string>
#include <string_view>

#include "migrate/src/pass.h"

namespace migrate {

struct Role {
  enum Kind {
    kValue,      // may name a device or a backend: argument, assigned, compared, default, returned, listed
    kKey,        // of a dictionary that is no table of devices
    kAttribute,  // names an attribute: getattr(x, 'cuda')
    kCode,       // run or annotated: eval('...'), def f(x: '...')
    kModule,     // names a module: import_module('...')
    kProse,      // for people: messages, names of options, docstrings
    kPath,       // of a file
  };
  Kind kind = kValue;
  bool compared = false;  // with == or in: must stay exactly comparable
  NodeId call = kNoNode;  // of an argument
  bool pattern = false;   // a regular expression
};

// whole: the outermost expression with the string's value (template.h).
Role role_of(const Pass& pass, NodeId whole);

}  // namespace migrate
