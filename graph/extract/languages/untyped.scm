(class_heritage [(identifier) @name (member_expression property: (property_identifier) @name)]) @reference.inherits
(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @definition.method
